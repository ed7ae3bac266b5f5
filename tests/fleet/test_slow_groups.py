"""A class of boards that needs longer than the others counts in some rounds, and it is told which setting that is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.test_virtual import virtual
from tests.fleet.test_virtual_book import asked

from auricle_cloud.rounds.policy import Timing
from auricle_fleet import FleetRun, Group
from auricle_fleet.virtual.clock import round_end

pytest.importorskip("espeakng_loader")


def test_a_virtual_round_waits_for_slow_devices_as_a_coordinator_does() -> None:
    timing = Timing(quorum=0.7, deadline=300.0, patience=2.0, least_wait=5.0)
    quick, slow = {f"q{i}": 0.1 for i in range(9)}, {f"s{i}": 25.0 + i for i in range(3)}
    told = {"invited": 12, "wanted": 12, "timing": timing}
    assert round_end({**quick, **slow}, {}, **told).names == [*quick]
    waited = round_end({**quick, **slow}, {}, **told, slow={*slow})
    assert (waited.names, waited.seconds) == ([*quick, *slow], 27.0)
    failed = round_end({**quick, "s1": 26.0}, {"s0": 25.0, "s2": 27.0}, **told, slow={*slow})
    assert (failed.names, failed.seconds) == ([*quick, "s1"], 27.0)
    silent = round_end(quick, {}, **told, slow={*slow})
    assert (silent.names, silent.seconds) == ([*quick], 300.0)


def test_a_virtual_round_does_without_a_broken_device_as_a_coordinator_does() -> None:
    """Two of three answer and the third is refused: 0.7 of three are three, and of the two others two."""
    timing = Timing(quorum=0.7, deadline=300.0, patience=2.0, least_wait=5.0)
    told = {"arrivals": {"a": 1.0, "b": 2.0}, "failed": {"c": 3.0}, "invited": 3, "wanted": 3, "timing": timing}
    assert round_end(**told).names is None
    assert round_end(**told, broken=1).names == ["a", "b"]


@pytest.mark.slow
def test_slow_boards_count_in_every_fourth_round_also_of_a_run_that_went_on(tmp_path: Path) -> None:
    told = virtual(groups=(Group(name="slow", delay=25.0),), method="fedavg", quorum=0.7, rounds=9)
    whole = FleetRun(told, tmp_path / "whole").run()
    assert [row.counted for row in whole.rounds] == [3, 3, 3, 4, 3, 3, 3, 4, 3]
    FleetRun(virtual(groups=told.groups, method="fedavg", quorum=0.7, rounds=6), tmp_path / "parts").run()
    went_on = FleetRun.resume(tmp_path / "parts", rounds=9).run()
    assert [row.counted for row in went_on.rounds] == [row.counted for row in whole.rounds]
    for out in (tmp_path / "whole", tmp_path / "parts"):
        with asked(out) as do:
            events = do.list_events(50, None, None, "too slow").events
            assert [event.round for event in events] == [8, 4]
            assert "least_wait" in events[0].detail
