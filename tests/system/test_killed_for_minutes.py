"""A crowd on which a broker, a coordinator or a process of devices is killed all the time (RELIABILITY F4).

One minute and 40 devices; with AURICLE_FULL_SIZE in the environment ten minutes and 1,000 devices, of which at least
20,000 updates have to be acknowledged. AURICLE_KILL_MINUTES says otherwise how long.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from auricle.process.open_files import raise_open_files
from tests.recorder import Record
from tests.system.child import Child, until
from tests.system.killed_coordinator import TASK
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.toy_fleet import succeeded, toy_fleet, watching
from tests.system.victims import EVERYBODY, Victims

FULL = "AURICLE_FULL_SIZE" in os.environ
DEVICES, TOGETHER, APART = (1000, 250, (20.0, 30.0)) if FULL else (40, 10, (4.0, 6.0))
"""TOGETHER: devices of one process, which die together; APART: seconds between two kills."""
SECONDS = 60 * float(os.environ.get("AURICLE_KILL_MINUTES", "10" if FULL else "1"))
WAIT, SILENT = (5.0, 0.02) if FULL else (1.0, 0.05)
"""Seconds that a round waits for the rest, and the share of the devices that drop out of it: not a round a second."""
NAMES = tuple(f"dev-{i:04d}" for i in range(DEVICES))
GROUPS = [NAMES[i : i + TOGETHER] for i in range(0, DEVICES, TOGETHER)]
ENDLESS = 5_000  # rounds; the run is stopped long before
LEAST = 20_000 if FULL and SECONDS >= 600 else 100  # updates that are acknowledged


@pytest.mark.reliability(
    "F4", load="40 devices, 1 min, a kill every 5 s; 1,000, 10 min, every 25 s at full size: 20,000 acknowledged"
)
@pytest.mark.slow
@pytest.mark.timeout(3600)
@NEEDS_MOSQUITTO
@pytest.mark.nightly
async def test_nothing_that_was_acknowledged_is_lost_or_doubled_in_minutes_of_kills(
    tmp_path: Path, record_property: Record
) -> None:
    raise_open_files()
    rng = random.Random(11)
    async with toy_fleet(tmp_path, NAMES, here=()) as fleet:

        async def coordinator() -> Child:
            return await fleet.coordinator(
                ENDLESS, quorum=0.5, least_wait=WAIT, deadline=300.0, keepalive=30, keep=False
            )

        async def crowd(group: int) -> Child:
            return await fleet.crowd_process(*GROUPS[group], everybody=NAMES, drop_out=SILENT, resend=10.0)

        victims = Victims(fleet, coordinator, crowd)
        await victims.start(len(GROUPS))
        began = time.monotonic()
        with watching(fleet) as store:

            def newest() -> int:
                row = store.rounds.newest(TASK)
                return 0 if row is None else row.round

            while (moment := time.monotonic() + rng.uniform(*APART)) < began + SECONDS:
                await until(lambda: time.monotonic() >= moment, "the next kill", SECONDS)
                await victims.kill(rng.choice(EVERYBODY), rng)
            await until(lambda: time.monotonic() >= began + SECONDS, "the end", SECONDS)
            minutes = (time.monotonic() - began) / 60
            last = newest() + 2
            await until(lambda: newest() > last, "two rounds without a kill", 600)
        record_property("minutes", round(minutes, 1))
        record_property("kills", victims.kills.total())
        for who, count in sorted(victims.kills.items()):
            record_property(f"{who} killed", count)
        victims.coordinator.process.terminate()
        await succeeded(victims.coordinator)
        rows = fleet.verify(ENDLESS, everybody=False, stopped=True, kept=False, record=record_property)
    assert len(rows) >= LEAST
