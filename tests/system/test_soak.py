"""A fleet that runs for long while broker, coordinator and devices are killed at random (RELIABILITY L4).

Two minutes and 20 devices; with AURICLE_FULL_SIZE in the environment two hours and 200, and AURICLE_SOAK_MINUTES says
otherwise. In its second half the coordinator lives, so that what it takes can be followed; the others go on dying.

Memory is looked at in two ways. What Python and NumPy hold at the end of a round has no warm-up to speak of: without
kills it has to stay within a tenth of an update a round, and a leak shows in a minute. The process as a whole grows for
some hundred rounds, less and less, while each thread of its pool gets a connection to the database, which keeps pages
and the last 128 statements; whether that ends shows in half an hour. It is not traced then, which takes memory itself.
"""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from auricle_cloud.storage.store import FILE, Store
from tests.recorder import Record
from tests.system.child import Child, until
from tests.system.killed_coordinator import KEPT, TASK
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.toy_fleet import ToyFleet, succeeded, toy_fleet, watching
from tests.system.victims import EVERYBODY, Victims
from tests.system.watched import Sample, disk, growth, sample, slope

FULL = "AURICLE_FULL_SIZE" in os.environ
DEVICES, TOGETHER, EVERY = (200, 50, 60.0) if FULL else (20, 5, 15.0)
"""TOGETHER: devices of one process, which die together; EVERY: seconds between two kills."""
SECONDS = 60 * float(os.environ.get("AURICLE_SOAK_MINUTES", "120" if FULL else "2"))
PACE, SILENT = (24.0, 0.02) if FULL else (1.0, 0.0)
"""Seconds that a round waits for the rest, and the share of the devices that keep it waiting: not a round a second."""
LEAST = 10  # rounds, without which nothing was there to be removed
NAMES = tuple(f"dev-{i:03d}" for i in range(DEVICES))
GROUPS = [NAMES[i : i + TOGETHER] for i in range(0, DEVICES, TOGETHER)]
ENDLESS = 3_000  # rounds; the run is stopped long before
HOUR = 3600.0
LEAN = {"keep": False}
"""A coordinator that removes what it needs no more, as `serve` does."""
LARGEST = 300.0  # MB that the whole process may take


class Soak:
    """What runs, dies, and is looked at."""

    def __init__(self, fleet: ToyFleet, victims: Victims, store: Store) -> None:
        self._fleet, self._victims, self._store = fleet, victims, store
        self.samples: list[Sample] = []
        self._round = 0

    def _looked(self, until: float) -> bool:
        """Whether this time has come; samples the coordinator once a round on the way."""
        row = self._store.rounds.newest(TASK)
        if row is not None and row.round > self._round:
            self._round = row.round
            now = sample(self._victims.coordinator.process.pid, self._fleet.state)
            self.samples += [now] if now else []
        return time.monotonic() >= until

    async def run(self, seconds: float) -> None:
        """Kill somebody every so often until the time is over."""
        rng, began = random.Random(7), time.monotonic()
        moment = began + EVERY
        while moment < began + seconds:
            await until(lambda: self._looked(moment), "the next kill", seconds + 60)  # noqa: B023
            half = moment - began > seconds / 2
            await self._victims.kill(rng.choice(("broker", "devices") if half else EVERYBODY), rng)
            moment = max(moment + EVERY, time.monotonic())
        await until(lambda: self._looked(began + seconds), "the end", seconds + 60)
        last = max(LEAST, self._round + 2)
        await until(lambda: self._looked(0.0) and self._round > last, "rounds without a kill", 600)


async def start(fleet: ToyFleet) -> Child:
    return await fleet.coordinator(ENDLESS, quorum=0.5, least_wait=PACE, deadline=300.0, keepalive=30, **LEAN)


async def crowd(fleet: ToyFleet, group: int) -> Child:
    return await fleet.crowd_process(*GROUPS[group], everybody=NAMES, drop_out=SILENT, resend=5.0)


@pytest.mark.reliability(
    "L4", load="20 devices, 2 min, a kill every 15 s; 200, 2 h, 60 s at full size, then no slope of memory"
)
@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@NEEDS_MOSQUITTO
@pytest.mark.nightly
async def test_a_fleet_that_is_killed_for_long_loses_nothing_and_takes_no_more_of_anything(
    tmp_path: Path, record_property: Record
) -> None:
    async with toy_fleet(tmp_path, NAMES, here=()) as fleet:
        victims = Victims(fleet, lambda: start(fleet), lambda group: crowd(fleet, group))
        await victims.start(len(GROUPS))
        began = time.monotonic()
        with watching(fleet) as store:
            soak = Soak(fleet, victims, store)
            await soak.run(SECONDS)
            await succeeded_when_asked(victims.coordinator)
            record_property("minutes", round((time.monotonic() - began) / 60, 1))
            record_property("kills", victims.kills.total())
            rows = fleet.verify(ENDLESS, everybody=False, stopped=True, kept=False, record=record_property)
            assert_disk(fleet, record_property, len(rows))
    keep = os.environ.get("AURICLE_SOAK_CURVES")
    if keep:
        Path(keep).write_text(json.dumps([asdict(each) for each in soak.samples]))
    assert_level(soak.samples, record_property)


@pytest.mark.reliability("L4", load="4 devices, 60 rounds: what the coordinator holds grows by no tenth of an update")
@pytest.mark.slow
@NEEDS_MOSQUITTO
@pytest.mark.nightly
async def test_what_a_coordinator_holds_does_not_grow_with_its_rounds(tmp_path: Path, record_property: Record) -> None:
    async with toy_fleet(tmp_path, NAMES[:4], here=()) as fleet:
        coordinator = await fleet.coordinator(60, least_wait=0.0, keepalive=30, trace=True, **LEAN)
        await fleet.crowd_process(*NAMES[:4], everybody=NAMES[:4], resend=30.0)
        await succeeded(coordinator, 240)
        held, size = held_by(coordinator), fleet.pack.plugin_table.size
    assert len(held) == 60
    assert_held(held, 2 * size, record_property)


def held_by(coordinator: Child) -> list[tuple[int, int]]:
    """Rounds of a coordinator's life, and bytes that it held at the end of each."""
    return [(line["round"], line["held"]) for line in coordinator.lines if "held" in line]


def assert_held(held: list[tuple[int, int]], update: int, record: Record) -> None:
    """Each round leaves less behind than a tenth of an update of so many bytes."""
    a_round = growth(held)
    record("held MB", round(held[-1][1] / 1e6, 1))
    record("held kB more a round", round(a_round / 1000, 3))
    assert a_round < update / 10


async def succeeded_when_asked(coordinator: Child) -> None:
    """Stop a coordinator, which has to end well."""
    coordinator.process.terminate()
    await succeeded(coordinator)


def assert_disk(fleet: ToyFleet, record: Record, updates: int) -> None:
    """What is kept is the last models, what the last two rounds were made of, and rows: not every body ever written."""
    blobs = sum(path.is_file() for path in (fleet.state / "blobs").rglob("*"))
    kept, ever = disk(fleet.state) / 1e6, updates * 2 * fleet.pack.plugin_table.size / 1e6
    record("state MB", round(kept, 1))
    record("MB of updates", round(ever, 1))
    record("blobs", blobs)
    assert blobs < 2 * (KEPT + 3) + 3 * DEVICES
    assert disk(fleet.state / FILE) + disk(fleet.state / f"{FILE}-wal") < 12e6 + 2000 * updates


def assert_level(samples: list[Sample], record: Record) -> None:
    """In its last life a coordinator takes no more memory, files and threads than at its beginning."""
    last = [each for each in samples if each.pid == samples[-1].pid]
    whole = last[-1].at - last[0].at
    warm = [each for each in last if each.at > last[0].at + whole / 4]
    grown = slope(warm) * (warm[-1].at - warm[0].at) / HOUR
    files = max(each.files for each in warm) - min(each.files for each in warm)
    threads = max(each.threads for each in warm) - min(each.threads for each in warm)
    record("coordinator MB", round(max(each.mb for each in samples)))
    record("MB grown when warm", round(grown, 1))
    record("in min", round((warm[-1].at - warm[0].at) / 60, 1))
    record("files grown", files)
    record("threads grown", threads)
    assert len(warm) >= 5
    assert max(each.mb for each in samples) < LARGEST
    if whole > HOUR / 2:  # in minutes there is no slope but that of warming up
        record("slope MB/h", round(slope(warm), 2))
        assert slope(warm) < 1
    assert files <= 8
    assert threads <= 8
