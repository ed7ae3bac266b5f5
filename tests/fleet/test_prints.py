"""Every suite of a paper holds what its table or figure holds: methods, conditions, figure, settings of the fleet."""

from __future__ import annotations

import re

import msgspec
import pytest

from auricle_fleet.suite.figures import NAMES
from auricle_fleet.suite.plan import cells, read_suite, shipped
from auricle_fleet.suite.prints import Paper, PaperItem, find_item, read_papers
from auricle_fleet.suite.sizes import full_size
from auricle_fleet.suite.targets import is_to_target

ITEMS = [(paper, item) for paper in read_papers() for item in paper.items]
HELD = [(paper, item) for paper, item in ITEMS if item.suite]


@pytest.mark.parametrize(("paper", "item"), ITEMS, ids=[f"{paper.name} {item.item}" for paper, item in ITEMS])
def test_an_item_has_a_suite_or_a_reason_why_not(paper: Paper, item: PaperItem) -> None:
    assert bool(item.suite) != bool(item.left_out)
    if not item.suite:
        return
    assert item.suite in shipped(), paper.name
    assert find_item(item.suite) == item
    assert item.figure in NAMES or is_to_target(item.figure)
    for printed in item.printed:
        assert printed.condition in item.conditions and printed.values
        assert set(printed.values) <= set(item.methods)


@pytest.mark.parametrize("item", [item for _, item in HELD], ids=[item.suite for _, item in HELD])
def test_a_suite_holds_what_its_name_says(item: PaperItem) -> None:
    suite, path = read_suite(item.suite)
    assert set(item.methods) <= {method.name for method in suite.methods}
    figures = [suite.figures[0], *(figure.name for figure in suite.target_figures)]
    assert item.figure in figures
    assert {printed.figure for printed in item.printed} <= {*suite.figures, *figures}
    full = full_size(suite, str(path))
    assert set(item.conditions) <= {condition.name for condition in full.conditions}
    wanted = msgspec.to_builtins(item.settings)
    for cell in cells(msgspec.structs.replace(full, seeds=full.seeds[:1]), str(path)):
        found = msgspec.to_builtins(cell.settings)
        assert {name: found[name] for name in wanted} == wanted or cell.condition not in item.conditions, cell.name


def test_every_suite_named_after_a_paper_is_in_its_file() -> None:
    named = {name for name in shipped() if re.fullmatch(r"(fedmlac|fedvsa|fedrpo|mupfl)-(table|fig)\d+", name)}
    assert named <= {item.suite for _, item in HELD}
