"""The suites that come with this package: every run of them is allowed in either size, and some are run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from auricle_fleet import FleetRun
from auricle_fleet.suite.plan import cells, read_suite, shipped
from auricle_fleet.suite.prints import read_papers
from auricle_fleet.suite.sizes import full_size
from auricle_fleet.suite.tuning import every_try

PAPERS = {item.suite for paper in read_papers() for item in paper.items if item.suite}
PICTURES = {"mupfl-fig4", "mupfl-fig10"}
"""Of which the print has pictures alone: one seed, and nothing to judge."""


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_shipped_suite_can_be_run_and_says_what_it_shows(name: str) -> None:
    suite, path = read_suite(name)
    assert suite.about
    sizes = [suite] if suite.full is None else [suite, full_size(suite, str(path))]
    for size in sizes:
        assert len(cells(size, str(path))) == len(size.methods) * len(size.conditions) * len(size.seeds)
        every_try(size, str(path))


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_a_papers_suite_has_claims_five_seeds_and_a_full_size(name: str) -> None:
    suite, path = read_suite(name)
    drawn = name in PICTURES
    assert bool(suite.claims) != drawn and suite.full is not None
    assert suite.seeds == ((0,) if drawn else (0, 1, 2, 3, 4)) and bool(suite.settings.get("pictures")) == drawn
    assert all(cell.settings.validation or suite.tuning is None for cell in cells(suite, str(path)))
    assert suite.tuning is None or (suite.tuning.seed == 100 and len(suite.tuning.values) <= 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixed-nets", "fedvsa-table9", "few-labels", "without-parts"])
def test_a_run_of_a_suite_runs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader")
    suite, path = read_suite(name)
    cell = next(each for each in reversed(cells(suite, str(path))) if each.settings.pack is None)
    few = {"rounds": 2, "devices": 4, "unseen": 3, "takes": 6, "min_clips": 5, "runtime": "step", "groups": ()}
    result = FleetRun(msgspec.structs.replace(cell.settings, **few), tmp_path / "run").run()
    assert [row.state for row in result.rounds] == ["published"] * 2
    assert result.summary.plugin_accuracy_unseen is not None
