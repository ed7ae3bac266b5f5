"""Devices ten years early and late, and a coordinator whose clock jumps by an hour (RELIABILITY S6)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.recorder import Record
from tests.system.toy_fleet import DEVICES, succeeded, toy_fleet

TEN_YEARS = 10 * 365.25 * 86_400
ROUNDS = 6
JUMPS = (3600.0, -3600.0, 0.0)  # seconds by which the coordinator's clock is off, from one round to the next


@pytest.mark.reliability(
    "S6", load="devices 10 years early and late, a coordinator that jumps by an hour between rounds"
)
@pytest.mark.slow
async def test_clocks_that_are_wrong_and_jump_change_no_round(tmp_path: Path, record_property: Record) -> None:
    async with toy_fleet(tmp_path, here=()) as fleet:
        coordinator = await fleet.coordinator(ROUNDS, deadline=120.0, jumps=JUMPS)
        for name, skew in zip(DEVICES, (TEN_YEARS, -TEN_YEARS, 0.0), strict=True):
            await fleet.agent_process(name, skew=skew)
        await succeeded(coordinator, 300)
        fleet.verify(ROUNDS, record=record_property)
        lines = coordinator.lines
    clocks = [line["clock"] for line in lines if "clock" in line]
    record_property("jumps", sum(now != then for now, then in pairwise(clocks)))
    assert clocks == [JUMPS[number % len(JUMPS)] for number in range(1, ROUNDS + 1)]
