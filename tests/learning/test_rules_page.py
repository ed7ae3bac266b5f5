"""`docs/rules.md` has every rule with every option and need, and none that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auricle_learning.methods import RULES

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()


def rows_under(heading: str) -> dict[str, list[str]]:
    """Cells of each row of the first table below a heading, by the rule in its first cell."""
    rows: dict[str, list[str]] = {}
    for line in PAGE.split(heading, 1)[1].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            rows[cells[0].strip("` |")] = cells[1:]
        elif rows and not line.startswith("|"):
            break
    return rows


def options_in(cell: str) -> set[str]:
    if other := re.match(r"as `(.+)`", cell):
        return options_in(rows_under("## What there is")[other[1]][0])
    return set(re.findall(r"`([a-z][a-z0-9_]*)`", re.sub(r"\([^)]*\)", "", cell)))


@pytest.mark.parametrize("name", RULES)
def test_the_page_names_the_options_of_each_rule(name: str) -> None:
    cell = rows_under("## What there is")[name][0]
    expected = set(RULES[name].settings)

    if name == "lpa+fedvsa":
        assert cell == "those of both"
    else:
        assert options_in(cell) == expected


def test_the_page_has_no_other_rules() -> None:
    assert set(rows_under("## What there is")) == set(RULES)


def test_the_page_names_what_each_rule_needs() -> None:
    rows = rows_under("## What a rule needs")

    assert {name: tuple(re.findall(r"`([a-z-]+)`:", cells[0])) for name, cells in rows.items()} == {
        name: rule.needs for name, rule in RULES.items() if rule.needs
    }
