"""Attackers, drop-outs, and a broker and a coordinator that are killed, all in one run of many devices.

With AURICLE_FULL_SIZE in the environment 1,000 devices and 20 rounds instead of 40 and 6.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from pathlib import Path

import pytest

from auricle.process.open_files import raise_open_files
from auricle_cloud.storage.store import Store
from tests.recorder import Record
from tests.system.child import Child, until
from tests.system.crowd import drop_outs
from tests.system.killed_coordinator import TASK
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.toy_fleet import ToyFleet, kill, succeeded, toy_fleet, watching
from tests.system.watched import Sample, sample

DEVICES, ROUNDS, EVERY = (1000, 20, 5) if "AURICLE_FULL_SIZE" in os.environ else (40, 6, 3)
"""EVERY: in each so many-th round broker and coordinator are killed."""
WAIT, RESEND = (30.0, 60.0) if DEVICES > 100 else (10.0, 5.0)
"""Seconds that a round waits for the rest once seven in ten have answered, and after which a device sends again."""
NAMES = tuple(f"dev-{i:04d}" for i in range(DEVICES))
ATTACKERS = frozenset(random.Random(15).sample(NAMES, DEVICES // 5))
DROP_OUT, LATE = 0.1, 0.1
"""Shares of the devices: who drops out of a round, and who may come too late to it for all the kills."""
MOST_EVENTS = 20  # devices of a round that events name as bounded; its report names all


async def start(fleet: ToyFleet) -> Child:
    """A coordinator as `serve` runs it, that closes a round without those who drop out."""
    return await fleet.coordinator(
        ROUNDS, quorum=0.7, least_wait=WAIT, deadline=900.0, keepalive=30, detect=True, one_phase=True
    )


class Run:
    """What runs, and what was seen of the coordinators."""

    def __init__(self, fleet: ToyFleet, coordinator: Child, store: Store) -> None:
        self._fleet, self.coordinator, self._store = fleet, coordinator, store
        self.samples: list[tuple[int, Sample]] = []  # with the round in which it was taken
        self.kills = 0

    def counted(self, number: int, part: float) -> bool:
        """Whether this part of a round's updates is counted; samples the coordinator on the way."""
        row = self._store.rounds.newest(TASK)
        last = self.samples[-1][0] if self.samples else 0
        if row is not None and row.round > last and (now := sample(self.coordinator.process.pid, self._fleet.state)):
            self.samples.append((row.round, now))
        return self._store.updates.how_many(TASK, number) >= part * DEVICES

    async def kill_both(self, number: int) -> None:
        """Kill the broker, and later in the same round the coordinator."""
        await until(lambda: self.counted(number, 0.2), f"a fifth of round {number}", 900)
        self._fleet.broker.kill()
        await self._fleet.broker.restart()
        self.kills += 1
        await until(lambda: self.counted(number, 0.5), f"half of round {number}", 900)
        kill(self.coordinator)
        await self.coordinator.end()
        self.kills += 1
        self.coordinator = await start(self._fleet)


@pytest.mark.reliability(
    "F4",
    load="40 devices, 6 rounds, a fifth attacks, a tenth drops out, 2 broker and 2 coordinator kills; 1,000, 20, "
    "4 and 4 at full size",
)
@pytest.mark.slow
@pytest.mark.timeout(5400)
@NEEDS_MOSQUITTO
@pytest.mark.nightly
async def test_attackers_drop_outs_and_kills_in_one_run_lose_nothing_and_attackers_are_named(
    tmp_path: Path, record_property: Record
) -> None:
    raise_open_files()

    async with toy_fleet(tmp_path, NAMES, here=()) as fleet:
        coordinator, began = await start(fleet), time.monotonic()
        shares = [NAMES[i::2] for i in range(2)]
        told = {"attackers": ATTACKERS, "everybody": NAMES, "drop_out": DROP_OUT, "resend": RESEND}
        await asyncio.gather(*(fleet.crowd_process(*share, **told) for share in shares))
        with watching(fleet) as store:
            run = Run(fleet, coordinator, store)
            for number in range(EVERY, ROUNDS + 1, EVERY):
                await run.kill_both(number)
            await succeeded(run.coordinator, 900)
            record_property("seconds", round(time.monotonic() - began))
            record_property("kills", run.kills)
            fleet.verify(ROUNDS, everybody=False, record=record_property)
            _as_it_had_to_be(store)
            record_property("attackers", len(ATTACKERS))
            record_property("attackers named", _named(store))
        samples = run.samples
    early = statistics.median(each.mb for number, each in samples if number <= ROUNDS // 2)
    late = statistics.median(each.mb for number, each in samples if number > ROUNDS // 2)
    record_property("coordinator MB", round(max(each.mb for _, each in samples)))
    record_property("MB more in the second half", round(late - early, 1))
    assert late < early + 20
    assert max(each.mb for _, each in samples) < 400
    assert max(each.files for _, each in samples) - min(each.files for _, each in samples) <= 10


def _as_it_had_to_be(store: Store) -> None:
    """Every round is published with who did not drop out, and with all attackers left out of its model."""
    for number in range(1, ROUNDS + 1):
        row = store.rounds.get(TASK, number)
        assert row.state == "published", (number, row.state)
        counted = store.updates.counted_devices(TASK, number)
        expected = set(store.rounds.invited(TASK, number)) - set(drop_outs(NAMES, number, DROP_OUT))
        assert counted <= expected, (number, counted - expected)
        assert len(expected - counted) <= LATE * DEVICES, (number, expected - counted)
        assert row.report is not None
        for layer in row.report["layers"]:
            assert counted & ATTACKERS <= set(layer["pruned_high"]), (number, layer["layer"])
        assert row.detection is not None
        assert set(row.detection["set_aside"]) == counted & ATTACKERS, number


def _named(store: Store) -> int:
    """Who is named by events, for a loss that nobody believes, and who counts for less than they say."""
    named = {event.device for event in store.journal.events(kind="loss set aside", limit=100_000)}
    assert named == ATTACKERS, "an attacker was never named, or somebody else was"
    bounded = {event.device for event in store.journal.events(kind="bounded", limit=100_000)}
    assert bounded and bounded <= ATTACKERS
    assert len(bounded) >= min(MOST_EVENTS, len(ATTACKERS) // 2)
    return len(named)
