"""Broker, coordinator and agents killed at random for a whole run (RELIABILITY F4).

With AURICLE_FULL_SIZE in the environment 60 devices, 100 rounds and 25 kills instead of 9, 25 and 12.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.recorder import Record
from tests.system.child import until
from tests.system.killed_coordinator import TASK
from tests.system.toy_fleet import succeeded, toy_fleet, watching
from tests.system.victims import EVERYBODY, Victims

DEVICES, ROUNDS, KILLS, TOGETHER = (60, 100, 25, 5) if "AURICLE_FULL_SIZE" in os.environ else (9, 25, 12, 3)
"""TOGETHER: agents of one process, which die together."""
NAMES = tuple(f"dev-{i:02d}" for i in range(DEVICES))
GROUPS = [NAMES[i : i + TOGETHER] for i in range(0, DEVICES, TOGETHER)]


def _counted(database: Path, since: int) -> int:
    """Updates that count in a round or a later one."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as connection:
        query = "SELECT count(*) FROM updates WHERE counted_in >= ?"
        number: int = connection.execute(query, (since,)).fetchone()[0]
        return number


@pytest.mark.reliability("F4", load="9 devices, 25 rounds, 12 kills; 60, 100 and 25 at full size")
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
@pytest.mark.nightly
async def test_nothing_is_lost_and_nothing_counts_twice_whoever_is_killed(
    seed: int, tmp_path: Path, record_property: Record
) -> None:
    rng = random.Random(seed)
    who = [EVERYBODY[i % 3] for i in range(KILLS)]
    rng.shuffle(who)
    moments = [(number, rng.randint(1, 3)) for number in sorted(rng.sample(range(1, ROUNDS), KILLS))]
    """(round, how many of its updates are counted by then)."""
    async with toy_fleet(tmp_path, NAMES, here=()) as fleet:
        victims = Victims(
            fleet,
            lambda: fleet.coordinator(ROUNDS, deadline=900.0),
            lambda group: fleet.agent_process(*GROUPS[group]),
        )
        await victims.start(len(GROUPS))
        began = time.monotonic()
        for (number, some), victim in zip(moments, who, strict=True):
            await until(lambda: _counted(fleet.database, number) >= some, f"round {number}", 600)  # noqa: B023
            await victims.kill(victim, rng)
        await succeeded(victims.coordinator, 900)
        record_property("run s", round(time.monotonic() - began))
        record_property("kills", victims.kills.total())
        rows = fleet.verify(ROUNDS, everybody=False, record=record_property)
        # Whoever was dead when a round began was not invited to it; everybody who was counts.
        with watching(fleet) as store:
            invited = {(number, name) for number in range(1, ROUNDS + 1) for name in store.rounds.invited(TASK, number)}
            states = {row.state for row in store.rounds.listed(TASK, limit=ROUNDS)}
        counted = {(row.round, row.device) for row in rows}
        record_property("invited", len(invited))
        record_property("invited and not counted", len(invited - counted))
        assert states == {"published"}
        assert counted == invited
