"""A broker killed with everything it remembers, again and again, or with a full disk (RELIABILITY F2, F9 and F13)."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink
from auricle.wire.frames import Topics
from auricle_cloud.storage.store import Store
from tests.recorder import Record
from tests.system.child import until
from tests.system.full_disk import SmallDisk
from tests.system.killed_coordinator import FLEET, TASK
from tests.system.toy_fleet import LISTENER, ToyFleet, succeeded, toy_fleet, watching

ENDLESS = 5_000  # rounds; the coordinator is stopped long before
STABLE = 10.5
"""Seconds after which a connection counts as sound: from one that ended earlier a link waits longer and longer."""


def _published(store: Store) -> int:
    row = store.rounds.newest(TASK)
    return 0 if row is None else sum(entry.state == "published" for entry in store.rounds.listed(TASK, limit=10_000))


def _intended(fleet: ToyFleet) -> int:
    return len(fleet.log.intended)


async def _kill_broker(fleet: ToyFleet) -> float:
    """SIGKILL and a new broker that knows nothing; seconds until coordinator and agents are all there again."""
    links = [agent.link for agent in fleet.agents.values()]
    connections = [link.counters.connections for link in links]
    fleet.broker.kill()
    await fleet.broker.restart()
    began = time.monotonic()
    there = asyncio.Event()

    async def hear(_: Delivery) -> None:
        there.set()

    # The new broker keeps nothing, so whatever it has on this topic was said by a coordinator that is subscribed.
    # Connections are counted: a link may be back before anybody has looked whether it was gone.
    await until(
        lambda: all(link.counters.connections > old for link, old in zip(links, connections, strict=True)),
        "new connections",
    )
    await fleet.back()
    listener = MqttLink(
        LinkSettings(fleet.broker.address(LISTENER), LISTENER), handlers={Topics(FLEET).coordinator_state: hear}
    )
    async with listener:
        await asyncio.wait_for(there.wait(), 60)
    return time.monotonic() - began


async def _run(folder: Path, kills: int, record: Record, *, spaced: bool) -> float:
    """Kill the broker so many times, each time in the middle of a round; the seconds it took at most to be back."""
    async with toy_fleet(folder) as fleet:
        coordinator = await fleet.coordinator(ENDLESS, deadline=120.0)
        await fleet.back()
        waited = []
        heard = time.monotonic()
        with watching(fleet) as store:
            for _ in range(kills):
                if spaced:
                    links = [agent.link for agent in fleet.agents.values()]
                    since = [heard, *(link._reconnection.up_since or time.monotonic() for link in links)]
                    await until(lambda: time.monotonic() - max(since) > STABLE, "sound connections")  # noqa: B023
                before = _intended(fleet)
                await until(lambda: _intended(fleet) > before, "an update to be sent")  # noqa: B023
                waited.append(await _kill_broker(fleet))
                heard = time.monotonic()  # from the coordinator, too
                done = _published(store)
                await until(lambda: _published(store) > done, "a round")  # noqa: B023
        coordinator.signal(signal.SIGTERM)
        await succeeded(coordinator)
        record("kills", len(waited))
        record("back s", round(max(waited), 2))
        fleet.verify(ENDLESS, stopped=True, record=record)
        return max(waited)


@pytest.mark.reliability("F2", load="3 kills in a row")
@pytest.mark.slow
def test_a_broker_killed_three_times_in_a_row_loses_nothing(tmp_path: Path, record_property: Record) -> None:
    asyncio.run(_run(tmp_path, 3, record_property, spaced=False))


@pytest.mark.reliability("F2", load="10 kills, persistence off")
@pytest.mark.slow
@pytest.mark.nightly
def test_a_broker_killed_ten_times_loses_nothing_and_everybody_is_back_in_seconds(
    tmp_path: Path, record_property: Record
) -> None:
    assert asyncio.run(_run(tmp_path, 10, record_property, spaced=True)) < 10


@pytest.mark.reliability("F13", load="1,100 connections, broker restarted")
@pytest.mark.slow
async def test_a_coordinator_with_more_than_a_thousand_open_files_connects_again(
    tmp_path: Path, record_property: Record
) -> None:
    """`select()` ends at descriptor 1,024: a client that uses it never comes back, and does not say so."""
    async with toy_fleet(tmp_path) as fleet:
        coordinator = await fleet.coordinator(6, sockets=1100)
        pid = coordinator.lines[0]["pid"]
        held = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        record_property("open files", held)
        assert held > 1100
        await coordinator.line(lambda line: line.get("round") == 2)
        record_property("back s", round(await _kill_broker(fleet), 2))
        await succeeded(coordinator)
        fleet.verify(6, record=record_property)
        peaks = coordinator.lines[-1]["peaks"]
        record_property("connections", int(peaks["connections"]))
        assert peaks["connections"] >= 2


# -- a full disk


async def _remember(fleet: ToyFleet, disk: SmallDisk) -> None:
    """Start the broker again, now with a memory on this disk that it writes every second."""
    disk.folder.chmod(0o777)
    config = fleet.folder / "broker" / "mosquitto.conf"
    kept = f"persistence true\npersistence_location {disk.folder}/\nautosave_interval 1"
    config.write_text(config.read_text().replace("persistence false", kept))
    await fleet.broker.restart()


@pytest.mark.reliability("F9", load="broker on a small tmpfs")
@pytest.mark.slow
@pytest.mark.parametrize("small_disk", [2], indirect=True)
async def test_a_broker_with_a_full_disk_goes_on_is_killed_and_goes_on_and_remembers_when_there_is_room(
    tmp_path: Path, small_disk: SmallDisk, record_property: Record
) -> None:
    async with toy_fleet(tmp_path) as fleet:
        if fleet.broker.kind != "mosquitto":
            pytest.skip("only mosquitto writes down what it remembers")
        await _remember(fleet, small_disk)
        coordinator = await fleet.coordinator(1000, deadline=120.0)
        memory, log = small_disk.folder / "mosquitto.db", fleet.broker.log_file
        with watching(fleet) as store:

            async def rounds(more: int) -> None:
                done = _published(store)
                await until(lambda: _published(store) >= done + more, "rounds")

            await until(memory.exists, "the broker's memory")
            await rounds(1)
            small_disk.fill()
            said = len(log.read_text())
            await until(lambda: "No space left" in log.read_text()[said:], "the broker's complaint")
            full = _published(store)
            await rounds(2)
            fleet.broker.kill()
            await fleet.broker.restart()
            await fleet.back()
            await rounds(2)
            record_property("rounds while full", _published(store) - full)
            small_disk.free()
            before = memory.stat().st_mtime_ns
            await until(lambda: memory.stat().st_mtime_ns > before, "the broker's memory to be written")
            fleet.broker.kill()
            await fleet.broker.restart()
            await fleet.back()
            await rounds(2)
        coordinator.signal(signal.SIGTERM)
        await succeeded(coordinator)
        fleet.verify(1000, stopped=True, record=record_property)
