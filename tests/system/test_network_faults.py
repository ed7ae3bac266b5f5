"""Networks that repeat, reorder, delay, cut and fall silent (RELIABILITY C1)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from auricle.mqtt_link.link import Delivery as Arrived
from auricle.wire.frames import open_frame, seal
from auricle.wire.messages import Ack, Message, Update
from auricle_cloud.storage.rows import UpdateRow
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_learning.training.train import Trainer
from tests.recorder import Record
from tests.system.child import Child, until
from tests.system.killed_coordinator import TASK
from tests.system.network_proxy import NetworkProxy
from tests.system.toy_fleet import DEVICES, ToyFleet, succeeded, toy_fleet, watching

LAST = DEVICES[-1]
HELD = 600.0 if "AURICLE_FULL_SIZE" in os.environ else 0.0  # seconds that an update is under way at least
ENDLESS = 5_000  # rounds; the coordinator is stopped long before


class RecordingAgent(Agent):
    """Remembers the frames of its updates, and every answer."""

    echo = 0  # so many times everything sent before is sent again with every update, the newest first

    def __init__(self, settings: AgentSettings, trainer: Trainer, executor: Executor) -> None:
        super().__init__(settings, trainer, executor)
        self.frames: list[bytes] = []
        self.answers: list[tuple[int, str]] = []  # (round, verdict)

    def before_update(self) -> None:
        """An update is about to be sent."""

    async def _say(self, kind: str, message: Message, body: bytes = b"") -> None:
        if not isinstance(message, Update):
            await super()._say(kind, message, body)
            return
        topic = self.topics.up(self.settings.device, kind)
        self.frames.append(seal(self._identity, topic, message, body))
        self.before_update()
        await self.link.publish(topic, self.frames[-1])
        for _ in range(self.echo):
            for frame in reversed(self.frames):
                await self.link.publish(topic, frame)

    async def _receive(self, arrived: Arrived) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self.settings.coordinator)
        if isinstance(message, Ack):
            self.answers.append((message.round, message.verdict))
        await super()._receive(arrived)


@asynccontextmanager
async def bad_network(folder: Path) -> AsyncIterator[tuple[ToyFleet, dict[str, NetworkProxy]]]:
    """A fleet of recording agents, each with a network of its own."""
    async with toy_fleet(folder) as fleet, AsyncExitStack() as stack:
        fleet.agent_type = RecordingAgent
        proxies = {name: await stack.enter_async_context(NetworkProxy(fleet.broker.port)) for name in DEVICES}
        fleet.ports = {name: proxy.port for name, proxy in proxies.items()}
        yield fleet, proxies


def _agent(fleet: ToyFleet, name: str) -> RecordingAgent:
    return cast("RecordingAgent", fleet.agents[name])


def _answers(fleet: ToyFleet, name: str) -> list[tuple[int, str]]:
    return _agent(fleet, name).answers


def _disturbed_by(fault: Callable[[str], None]) -> type[Agent]:
    """Agents that suffer a fault, which is told their name, whenever they send an update."""

    class Disturbed(RecordingAgent):
        def before_update(self) -> None:
            fault(self.settings.device)

    return Disturbed


@pytest.mark.reliability("C1", load="duplicates and reordering by a proxy")
@pytest.mark.slow
async def test_updates_that_come_again_and_in_another_order_count_once_and_are_called_duplicates(
    tmp_path: Path, record_property: Record
) -> None:
    async with bad_network(tmp_path) as (fleet, _):
        rounds = 4
        coordinator = await fleet.coordinator(rounds)
        for name in DEVICES:
            _agent(fleet, name).echo = 2
        await succeeded(coordinator)
        fleet.verify(rounds, record=record_property)
        told = [answer for name in DEVICES for answer in _answers(fleet, name)]
        for name in DEVICES:
            for number in range(1, rounds + 1):
                verdicts = [verdict for of, verdict in _answers(fleet, name) if of == number]
                assert verdicts[0] == "accepted"
                assert set(verdicts[1:]) <= {"duplicate"}
        duplicates = sum(verdict == "duplicate" for _, verdict in told)
        record_property("called duplicate", duplicates)
        assert duplicates > 2 * rounds * len(DEVICES)


def _called(fleet: ToyFleet, verdict: str) -> list[int]:
    """Rounds for which the last device's updates were called so."""
    return [number for number, said in _answers(fleet, LAST) if said == verdict]


def _hold_first(proxies: dict[str, NetworkProxy], name: str, held: list[str]) -> Callable[[str], None]:
    """Hold what this device sends from its first update on, which is not always one for the first round."""

    def hold(device: str) -> None:
        if device == name and not held:
            held.append(device)
            proxies[device].hold("up")

    return hold


def _told(coordinator: Child) -> int:
    return sum("round" in line for line in coordinator.lines)


@pytest.mark.reliability("C1", load="held until the round is over; for ten minutes at full size")
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_an_update_that_comes_after_its_round_is_called_late_and_does_not_count(
    tmp_path: Path, record_property: Record
) -> None:
    async with bad_network(tmp_path) as (fleet, proxies):
        held: list[str] = []
        fleet.agent_type = _disturbed_by(_hold_first(proxies, LAST, held))
        coordinator = await fleet.coordinator(ENDLESS, quorum=0.6, least_wait=max(0.2, HELD / 100))
        await until(lambda: held, "an update that is held")
        since = time.monotonic()
        over = _told(coordinator) + 2
        await until(lambda: _told(coordinator) >= over and time.monotonic() > since + HELD, "rounds", HELD + 60)
        proxies[LAST].release()
        record_property("delayed s", round(time.monotonic() - since, 1))
        await until(lambda: _called(fleet, "late"), "the answer")
        number = _called(fleet, "late")[0]
        seen = len(coordinator.lines)
        await coordinator.line(lambda line: line.get("counted") == 3, start=seen)
        rows = await _stopped(fleet, coordinator, ENDLESS, record_property)
        record_property("called late", len(_called(fleet, "late")))
        assert LAST not in {row.device for row in rows if row.round == number}


@pytest.mark.reliability("C1", load="held until the round is aborted")
@pytest.mark.slow
async def test_an_update_for_a_round_that_was_aborted_is_called_closed_and_does_not_count(
    tmp_path: Path, record_property: Record
) -> None:
    async with bad_network(tmp_path) as (fleet, proxies):
        held: list[str] = []
        fleet.agent_type = _disturbed_by(_hold_first(proxies, LAST, held))
        coordinator = await fleet.coordinator(60, quorum=1.0, deadline=5.0)
        await until(lambda: held, "an update that is held")
        over = _told(coordinator) + 1
        await until(lambda: _told(coordinator) >= over, "the end of its round")
        proxies[LAST].release()
        await until(lambda: _called(fleet, "closed"), "the answer")
        number = _called(fleet, "closed")[0]
        assert [line["state"] for line in coordinator.lines if line.get("round") == number] == ["aborted"]
        seen = len(coordinator.lines)
        await coordinator.line(lambda line: line.get("counted") == 3, start=seen)
        rows = await _stopped(fleet, coordinator, 60, record_property)
        record_property("called closed", len(_called(fleet, "closed")))
        assert LAST not in {row.device for row in rows if row.round == number}


async def _stopped(fleet: ToyFleet, coordinator: Child, rounds: int, record: Record) -> list[UpdateRow]:
    coordinator.signal(signal.SIGTERM)
    await succeeded(coordinator)
    return fleet.verify(rounds, everybody=False, stopped=True, record=record)


@pytest.mark.reliability("F5", load="100 ms, 500 kB/s, cuts, resets and silence, 10 rounds")
@pytest.mark.slow
@pytest.mark.nightly
async def test_a_slow_network_that_cuts_and_falls_silent_loses_nothing(tmp_path: Path, record_property: Record) -> None:
    rng = random.Random(7)
    done: dict[str, int] = {"cut": 0, "reset": 0, "silence": 0}

    async with bad_network(tmp_path) as (fleet, proxies):
        rounds = 10
        fleet.keepalive = 4
        for proxy in proxies.values():
            proxy.delay, proxy.rate = 0.05, 500_000.0

        def disturb(name: str) -> None:
            kind = rng.choice(["cut", "reset", "silence", "", "", "", ""])
            if kind == "cut":
                proxies[name].cut_after(rng.randrange(1, 100_000))
            elif kind == "reset":
                proxies[name].reset()
            elif kind == "silence":
                proxies[name].hold("up", "down")
            if kind:
                done[kind] += 1

        fleet.agent_type = _disturbed_by(disturb)
        began = time.monotonic()
        coordinator = await fleet.coordinator(rounds, deadline=600.0)
        await succeeded(coordinator, 600)
        record_property("run s", round(time.monotonic() - began))
        for kind, count in done.items():
            record_property(f"{kind}s", count)
        rows = fleet.verify(rounds, everybody=False, record=record_property)
        _everybody_invited_counts(fleet, rows, rounds)
        counted = len(rows)
    assert counted > 20, "most rounds have everybody"
    assert all(done.values()), done


def _everybody_invited_counts(fleet: ToyFleet, rows: list[UpdateRow], rounds: int) -> None:
    """Every round is published, with all it invited: who is cut off at its beginning is left to the next one."""
    with watching(fleet) as store:
        for number in range(1, rounds + 1):
            assert store.rounds.get(TASK, number).state == "published"
            invited = sorted(store.rounds.invited(TASK, number))
            assert invited
            assert sorted(row.device for row in rows if row.round == number) == invited
