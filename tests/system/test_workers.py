"""Several coordinators on one PostgreSQL, of which one leads: any of them may die at any instant (RELIABILITY F12).

Five kills and 40 devices; with AURICLE_FULL_SIZE in the environment a kill a minute for ten minutes, and 1,000 devices.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from auricle.mqtt_link.link import LinkSettings, MqttLink
from auricle.process.open_files import raise_open_files
from auricle.wire.frames import Topics
from auricle.wire.identity import Identity
from auricle_fleet.broker.broker import start_broker
from tests.recorder import Record
from tests.system.child import Child, until
from tests.system.killed_coordinator import FLEET, TASK
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.toy_fleet import ToyFleet, kill, toy_fleet, watching

FULL = "AURICLE_FULL_SIZE" in os.environ
DEVICES, TOGETHER, KILLS, APART = (1000, 250, 10, 60.0) if FULL else (40, 20, 5, 8.0)
WAIT = 5.0 if FULL else 1.0
"""Seconds that a round waits for the rest."""
NAMES = tuple(f"dev-{i:04d}" for i in range(DEVICES))
WORKERS = ("worker-0", "worker-1", "worker-2")
ENDLESS = 5_000  # rounds; the run is stopped long before


class Workers:
    """Three coordinators of one database, and which of them leads."""

    def __init__(self, fleet: ToyFleet, database: str) -> None:
        self._fleet, self._database = fleet, database
        self._children: dict[str, Child] = {}

    async def start(self, name: str) -> None:
        self._children[name] = await self._fleet.worker(
            name, ENDLESS, self._database, quorum=0.5, least_wait=WAIT, deadline=300.0, keep=False
        )

    def leader(self) -> str:
        """Who said last that it leads."""
        led = {line["epoch"]: name for name, child in self._children.items() for line in child.lines if "epoch" in line}
        return led[max(led)]

    async def kill(self, name: str) -> None:
        """SIGKILL, and another in its place."""
        kill(self._children[name])
        await self._children[name].end()
        await self.start(name)

    async def stop(self) -> None:
        """SIGTERM; each has to end well."""
        for child in self._children.values():
            child.process.terminate()
        for child in self._children.values():
            code, errors = await child.end()
            assert code == 0, errors[-2000:]


@pytest.mark.reliability(
    "F12", load="3 workers, 40 devices, 5 kills in a minute; 1,000 devices, a kill a minute for ten at full size"
)
@pytest.mark.slow
@pytest.mark.timeout(3600)
@NEEDS_MOSQUITTO
async def test_any_of_three_workers_may_die_and_nothing_is_lost_or_doubled(
    postgres_url: str, tmp_path: Path, record_property: Record
) -> None:
    raise_open_files()
    rng, took, again = random.Random(12), defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    async with toy_fleet(tmp_path, NAMES, here=()) as fleet:
        workers = Workers(fleet, postgres_url)
        for name in WORKERS:
            await workers.start(name)
        for i in range(0, DEVICES, TOGETHER):
            await fleet.crowd_process(*NAMES[i : i + TOGETHER], everybody=NAMES, drop_out=0.02, resend=5.0)
        with watching(fleet) as store:

            def counted() -> int:
                row = store.rounds.newest(TASK)
                return 0 if row is None else row.round * DEVICES + store.updates.how_many(TASK, row.round)

            def stands() -> tuple[int, str, int]:
                """The round, its state, and how many of its updates count."""
                row = store.rounds.newest(TASK)
                return (0, "planned", 0) if row is None else (row.round, row.state, counted())

            await until(lambda: counted() > DEVICES, "the first round")
            for moment in range(KILLS):
                name = workers.leader() if moment % 2 == 0 else rng.choice(WORKERS)
                role = "leader" if name == workers.leader() else "worker"
                began = time.monotonic()
                await workers.kill(name)
                before, stood = counted(), stands()
                await until(lambda: stands() != stood, "a round that goes on")  # noqa: B023
                took[role].append(time.monotonic() - began)
                await until(lambda: counted() > before + DEVICES // 20, "more updates that count")  # noqa: B023
                again[role].append(time.monotonic() - began)
                rest = began + APART
                await until(lambda: time.monotonic() > rest, "the next kill", APART + 60)  # noqa: B023
            last = store.rounds.newest(TASK)
            assert last is not None
            await until(lambda: counted() > (last.round + 2) * DEVICES, "two rounds without a kill", 120)
        await workers.stop()
        record_property("workers", len(WORKERS))
        record_property("kills", KILLS)
        for role in took:
            record_property(f"goes on after {role} s", round(max(took[role]), 1))
            record_property(f"counts again after {role} s", round(max(again[role]), 1))
        rows = fleet.verify(ENDLESS, everybody=False, stopped=True, kept=False, record=record_property)
    assert len({row.device for row in rows}) == DEVICES


@pytest.mark.slow
@NEEDS_MOSQUITTO
async def test_a_device_cannot_join_the_group_of_the_workers(tmp_path: Path) -> None:
    """mosquitto grants the subscription, and gives a member that may read nothing its share."""
    names, ours, count = ("worker-0", "dev-liar", "dev-a"), Identity.create(), 20
    users = {name: f"secret-of-{name}" for name in names}
    topics = Topics(FLEET)
    took: dict[str, int] = {}

    async with await start_broker(tmp_path, users, fleet=FLEET, kind="mosquitto", persistence=False) as broker:

        @asynccontextmanager
        async def link(name: str, group: Identity | None = None) -> AsyncIterator[MqttLink]:
            filters = [] if group is None else [topics.update_group(group)]
            handlers = {each: lambda _: took.update({name: took.get(name, 0) + 1}) for each in filters}
            settings = LinkSettings(broker.address(name), name, session_expiry=0)
            async with MqttLink(settings, handlers=handlers) as made:
                await made.wait_connected(30)
                yield made

        async def send() -> int:
            took.clear()
            async with link("dev-a") as device:
                for number in range(count):
                    await device.publish(topics.up("dev-a", "upd"), str(number).encode())
            await asyncio.sleep(0.5)
            return took.get("worker-0", 0)

        async with link("worker-0", ours):
            async with link("dev-liar", Identity.create()):
                assert await send() == count
            async with link("dev-liar", ours):  # who knew the key: this is what the name is kept for
                assert await send() == count // 2
    assert "dev-liar" not in took
