"""A coordinator that is slow, paused, told to stop, and whose disk is full (RELIABILITY F8 to F11)."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink
from auricle.wire.frames import Topics, open_frame
from auricle.wire.messages import CoordinatorState, Model
from auricle_cloud.api.health import folder_takes
from tests.nightly import nightly_but
from tests.recorder import Record
from tests.system.child import Child, until
from tests.system.full_disk import SmallDisk
from tests.system.killed_coordinator import FLEET
from tests.system.simulated_device import SimulatedDevice
from tests.system.toy_fleet import DEVICES, LISTENER, ToyFleet, succeeded, toy_fleet

LAST = DEVICES[-1]
PAUSED = 60.0 if "AURICLE_FULL_SIZE" in os.environ else 0.0  # seconds that a coordinator is stopped at least


def _accepted(fleet: ToyFleet) -> set[tuple[str, int]]:
    return {(name, number) for name, number, _, _, verdict in fleet.log.acknowledged if verdict == "accepted"}


@pytest.mark.reliability("F9", load="coordinator on a small tmpfs")
@pytest.mark.parametrize("small_disk", [3], indirect=True)
@pytest.mark.slow
async def test_a_coordinator_with_a_full_disk_acknowledges_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path, small_disk: SmallDisk, record_property: Record
) -> None:
    """On 3 MB: the checker needs all bodies and states of two rounds, 1.8 MB; the database and its log take 0.7."""

    async with toy_fleet(tmp_path) as fleet:
        fleet.state = small_disk.folder / "coordinator"
        rounds = 2
        coordinator = await fleet.coordinator(rounds)
        await coordinator.line(lambda line: line.get("round") == 1)
        small_disk.fill()
        await coordinator.complaint("full")
        # An agent notes an answer a little after the coordinator has gone on to the next round.
        before = _accepted(fleet) | {(name, 1) for name in DEVICES}
        sent = [agent.link.counters.messages_sent for agent in fleet.agents.values()]
        failing = folder_takes(fleet.state)()
        assert failing is not None and "full" in failing
        complained = len(coordinator.errors)
        # Every device has sent again at least twice, and the coordinator has tried.
        pairs = list(zip(fleet.agents.values(), sent, strict=True))
        again = "devices that send again"
        await until(lambda: all(agent.link.counters.messages_sent >= then + 2 for agent, then in pairs), again)
        await until(lambda: len(coordinator.errors) > complained, "a second complaint")
        record_property("acknowledged before", len(before))
        record_property("acknowledged while full", len(_accepted(fleet) - before))
        assert _accepted(fleet) <= before, "something was acknowledged that no disk has taken"
        assert coordinator.process.returncode is None, "".join(coordinator.errors)[-2000:]
        small_disk.free()
        freed = time.monotonic()
        await coordinator.line(lambda line: line.get("round", 0) > 1, start=len(coordinator.lines))
        record_property("a round over, s after there is room", round(time.monotonic() - freed, 1))
        await succeeded(coordinator)
        with sqlite3.connect(fleet.database) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        fleet.verify(rounds, record=record_property)


@pytest.mark.reliability("F9", load="coordinator, at each state of a round")
@pytest.mark.slow
@pytest.mark.parametrize("point", ["collecting -> closing", "closing -> aggregated", "aggregated -> published"])
async def test_a_disk_that_fills_between_two_states_of_a_round_holds_the_round_up_and_no_more(
    point: str, tmp_path: Path, small_disk: SmallDisk, record_property: Record
) -> None:
    async with toy_fleet(tmp_path) as fleet:
        fleet.state = small_disk.folder / "coordinator"
        coordinator = await fleet.coordinator(3, fill=f"before {point}")
        await coordinator.complaint("full")
        complained = len(coordinator.errors)
        await coordinator.complaint("full", start=complained)
        record_property("rounds while full", sum("round" in line for line in coordinator.lines))
        assert not any("round" in line for line in coordinator.lines)
        small_disk.free()
        await succeeded(coordinator)
        fleet.verify(3, record=record_property)


# -- told to stop


async def _in_hand(coordinator: Child, names: Sequence[str]) -> None:
    """Wait until the coordinator has taken in an update of each."""
    for name in names:
        await coordinator.line(lambda line: line.get("point") == f"in hand: {name}")  # noqa: B023


async def _state(fleet: ToyFleet) -> CoordinatorState:
    """What a device that connects now is told about the coordinator."""
    heard: list[CoordinatorState] = []

    async def hear(arrived: Delivery) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: bytes.fromhex(fleet.key))
        assert isinstance(message, CoordinatorState)
        heard.append(message)

    topic = Topics(FLEET).coordinator_state
    async with MqttLink(LinkSettings(fleet.broker.address(LISTENER), LISTENER), handlers={topic: hear}):
        await until(lambda: heard, "the coordinator's state")
    return heard[-1]


@pytest.mark.reliability("F10", load="SIGTERM while collecting")
@pytest.mark.slow
async def test_a_coordinator_told_to_stop_counts_what_is_in_hand_says_goodbye_and_can_go_on(
    tmp_path: Path, record_property: Record
) -> None:
    async with toy_fleet(tmp_path, here=DEVICES[:2]) as fleet:
        coordinator = await fleet.coordinator(2, slow=1.5, tell=True)
        victim = await fleet.agent_process(LAST, kill="training")
        await victim.end()
        await _in_hand(coordinator, DEVICES[:2])
        coordinator.signal(signal.SIGTERM)
        began = time.monotonic()
        await coordinator.line(lambda line: line.get("point") == "no more rounds")
        # It registers while the coordinator stops, and would be invited otherwise.
        await fleet.agent_process(LAST)
        await succeeded(coordinator, 25)
        record_property("stopped s", round(time.monotonic() - began, 1))
        said = [line["point"] for line in coordinator.lines if "point" in line]
        after = said[said.index("no more rounds") :]
        record_property("invitations after SIGTERM", after.count("invite"))
        assert "invite" not in after
        await until(lambda: len(_accepted(fleet)) >= 2, "the acknowledgements")
        record_property("acknowledged of those in hand", len(_accepted(fleet)))
        assert _accepted(fleet) == {(name, 1) for name in DEVICES[:2]}
        assert not (await _state(fleet)).online
        await succeeded(await fleet.coordinator(2))
        fleet.verify(2, record=record_property)


@pytest.mark.reliability("F10", load="SIGTERM twice")
@pytest.mark.slow
async def test_a_coordinator_told_twice_to_stop_stops_at_once_and_loses_nothing(
    tmp_path: Path, record_property: Record
) -> None:
    async with toy_fleet(tmp_path) as fleet:
        coordinator = await fleet.coordinator(2, slow=30.0, tell=True)
        await _in_hand(coordinator, DEVICES)
        coordinator.signal(signal.SIGTERM)
        await coordinator.line(lambda line: line.get("point") == "no more rounds")
        coordinator.signal(signal.SIGTERM)
        began = time.monotonic()
        code, errors = await coordinator.end(10)
        record_property("stopped at once s", round(time.monotonic() - began, 2))
        assert (code, errors) == (128 + signal.SIGTERM, "")
        assert not _accepted(fleet)
        await succeeded(await fleet.coordinator(2))
        fleet.verify(2, record=record_property)


# -- paused, and overtaken by another


@pytest.mark.reliability("F11", load="SIGSTOP at each point, another takes over; for 60 s at full size")
@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    nightly_but(
        ["before ack", "before collecting -> closing", "before closing -> aggregated", "after closing -> aggregated"],
        ["before closing -> aggregated"],
    ),
)
async def test_a_coordinator_that_was_paused_and_overtaken_does_nothing_any_more(
    point: str, tmp_path: Path, record_property: Record
) -> None:
    async with toy_fleet(tmp_path) as fleet:
        rounds = 5_000  # both are stopped long before
        manifests: list[Model] = []

        async def hear(arrived: Delivery) -> None:
            message, _ = open_frame(arrived.payload, arrived.topic, lambda _: bytes.fromhex(fleet.key))
            assert isinstance(message, Model)
            manifests.append(message)

        zombie = await fleet.coordinator(rounds, pause=point)
        link = LinkSettings(fleet.broker.address(LISTENER), LISTENER)
        async with MqttLink(link, handlers={Topics(FLEET).model: hear}):
            stat = Path(f"/proc/{zombie.process.pid}/stat")
            await until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "the pause")
            paused = time.monotonic()
            second = await fleet.coordinator(rounds)
            await second.line(lambda line: line.get("round") == 3)
            await until(lambda: time.monotonic() > paused + PAUSED, "the end of the pause", PAUSED + 60)
            zombie.signal(signal.SIGCONT)
            woken, seen = time.monotonic(), len(manifests)
            record_property("paused s", round(woken - paused, 1))
            code, errors = await zombie.end(30)
            record_property("gone s after it was woken", round(time.monotonic() - woken, 1))
            second.signal(signal.SIGTERM)
            await succeeded(second, 120)
        record_property("manifests of the lower epoch", sum(model.epoch < 2 for model in manifests[seen:]))
        assert code == 1
        assert "newer coordinator" in errors.splitlines()[-1]
        assert "Traceback" not in errors, errors
        assert [model.epoch for model in manifests[seen:]] == [2] * len(manifests[seen:])
        versions = [model.version for model in manifests]
        assert versions == sorted(versions)
        assert (await _state(fleet)).epoch == 2
        fleet.verify(rounds, stopped=True, record=record_property)


# -- slow


@pytest.mark.reliability("F8", load="500 devices, 2 rounds, 0.2 s an update")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.nightly
async def test_a_slow_coordinator_keeps_its_queue_its_memory_and_its_connection(
    tmp_path: Path, record_property: Record
) -> None:
    """500 devices send once: what would be dropped anywhere would be missed, and a duplicate costs no 0.2 s."""
    names = tuple(f"dev-{i:04d}" for i in range(500))
    async with toy_fleet(tmp_path, names, here=()) as fleet:
        coordinator = await fleet.coordinator(2, slow=0.2, at_once=16, keepalive=5, deadline=600.0)
        key, size = bytes.fromhex(fleet.key), fleet.pack.plugin_table.size
        told = (key, fleet.pack.identity, size, 1e6)
        devices = [SimulatedDevice(n, FLEET, fleet.broker.address(n), *told, keepalive=60) for n in names]
        began = time.monotonic()
        await asyncio.gather(*(device.link.start() for device in devices))
        try:
            code, errors = await coordinator.end(600)
            assert code == 0, errors[-2000:]
            await until(lambda: all(len(device.answers) == 2 for device in devices), "all answers")
            assert {device.link.counters.connections for device in devices} == {1}
        finally:
            await asyncio.gather(*(device.stop() for device in devices))
        record_property("run s", round(time.monotonic() - began))
        fleet.verify(2, record=record_property)
        found: dict[str, float] = coordinator.lines[-1]["peaks"]
    said = {"waiting": "waiting at most", "in_hand": "in hand at most", "grown_mb": "MB grown"}
    for name, value in found.items():
        record_property(said.get(name, name), round(value, 1))
    assert found["in_hand"] <= 16
    assert found["waiting"] <= 8 * 16
    assert found["connections"] == 1
    assert found["grown_mb"] < 32 + 4e-6 * size * len(names)  # the round's matrix is kept as updates arrive
