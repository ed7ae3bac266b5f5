"""Agents that are killed, that fall silent, and whose disk is full (RELIABILITY F3 and F9)."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from auricle.wire.plan import Plan
from auricle_cloud.storage.rows import InvitationRow
from auricle_cloud.storage.store import Store
from auricle_edge.fleet.agent import Agent
from auricle_learning.training.train import RoundResult
from tests.nightly import nightly_but
from tests.recorder import Record
from tests.system.child import until
from tests.system.full_disk import SmallDisk
from tests.system.killed_coordinator import TASK
from tests.system.toy_fleet import DEVICES, ToyFleet, killed, succeeded, toy_fleet, watching

LAST = DEVICES[-1]


def _bodies(fleet: ToyFleet, name: str) -> dict[int, set[str]]:
    """What a device of another process has intended, by round."""
    fleet.read_said()
    rounds = {number for device, number, _ in fleet.log.intended if device == name}
    return {
        number: {body for device, of, body in fleet.log.intended if (device, of) == (name, number)} for number in rounds
    }


@pytest.mark.reliability("F3", load="5 kills at each of four points")
@pytest.mark.slow
@pytest.mark.parametrize("point", nightly_but(["training", "kept", "sent", "acknowledged"], ["kept"]))
async def test_an_agent_killed_five_times_at_a_point_counts_once_in_each_of_these_rounds(
    point: str, tmp_path: Path, record_property: Record
) -> None:
    async with toy_fleet(tmp_path, here=DEVICES[:2]) as fleet:
        rounds, after, resumed = 1000, 0, list[float]()
        coordinator = await fleet.coordinator(rounds)
        with watching(fleet) as store:
            for _ in range(5):
                victim = await fleet.agent_process(LAST, kill=point, after=after)
                await killed(victim)
                died = time.monotonic()
                before = _bodies(fleet, LAST)
                # An update that has been sent may have ended its round, and the next began without the dead.
                newest = store.rounds.newest(TASK)
                assert newest is not None
                after = max(before) if point in ("sent", "acknowledged") else newest.round
                assert len(before.get(after, ())) == (0 if point == "training" else 1)
                again = await fleet.agent_process(LAST)
                await until(lambda: LAST in store.updates.sent_for(TASK, after), "its update")  # noqa: B023
                resumed.append(time.monotonic() - died)
                if point != "training":
                    assert _bodies(fleet, LAST)[after] == before[after], "it was trained again, not sent again"
                again.signal(signal.SIGTERM)
                await succeeded(again)
        await fleet.agent_process(LAST)
        coordinator.signal(signal.SIGTERM)
        await succeeded(coordinator)
        record_property("kills", len(resumed))
        record_property("counted again s", round(max(resumed), 1))
        rows = fleet.verify(rounds, everybody=False, stopped=True, record=record_property)
        assert len([row for row in rows if row.device == LAST]) >= 5


def _online(store: Store, name: str) -> bool:
    return bool(store.devices.get(name).online)


@pytest.mark.reliability("F7", load="a device that dies: presence by its last will")
@pytest.mark.slow
async def test_a_device_that_dies_in_a_round_is_known_dead_within_seconds(
    tmp_path: Path, record_property: Record
) -> None:
    async with toy_fleet(tmp_path, here=DEVICES[:2]) as fleet:
        coordinator = await fleet.coordinator(4, quorum=0.6, least_wait=45.0)
        victim = await fleet.agent_process(LAST, kill="training", after=1)
        with watching(fleet) as store:
            await victim.end()
            died = time.monotonic()
            await until(lambda: not _online(store, LAST), "the last will", 5.0)
            record_property("known dead s", round(time.monotonic() - died, 2))
        await succeeded(coordinator)
        rows = fleet.verify(4, everybody=False, record=record_property)
        assert [row.round for row in rows if row.device == LAST] == [1]
        assert all(line["state"] == "published" for line in coordinator.lines if "round" in line)


@pytest.mark.slow
@pytest.mark.nightly
async def test_asynchronous_rounds_do_not_wait_for_a_device_that_falls_silent(tmp_path: Path) -> None:
    """It is stopped, not killed: no last will, and the broker believes in it for its whole keepalive."""
    async with toy_fleet(tmp_path, here=DEVICES[:2]) as fleet:
        rounds, deadline = 14, 60.0
        coordinator = await fleet.coordinator(rounds, buffer=2, deadline=deadline)
        silent = await fleet.agent_process(LAST)
        await coordinator.line(lambda line: line.get("round") == 2)
        silent.signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            await coordinator.line(lambda line: line.get("round") == 5, deadline)
            with watching(fleet) as store:
                assert _online(store, LAST), "it was not silent but known dead"
            await coordinator.line(lambda line: line.get("round") == rounds, deadline)
            seconds = time.monotonic() - began
        finally:
            silent.signal(signal.SIGCONT)
        await succeeded(coordinator)
        assert all(line["state"] == "published" for line in coordinator.lines if "round" in line)
        fleet.verify(rounds, everybody=False)
    print(f"twelve asynchronous rounds without the silent device took {seconds:.1f} s")


@pytest.mark.slow
@pytest.mark.nightly
async def test_a_synchronous_round_waits_for_a_silent_device_until_its_deadline_and_no_longer(tmp_path: Path) -> None:
    async with toy_fleet(tmp_path, here=DEVICES[:2]) as fleet:
        deadline = 4.0
        coordinator = await fleet.coordinator(5, deadline=deadline, quorum=1.0)
        silent = await fleet.agent_process(LAST)
        await coordinator.line(lambda line: line.get("round") == 2)
        silent.signal(signal.SIGSTOP)
        waited = []
        try:
            for number in (4, 5):
                began = time.monotonic()
                ended = await coordinator.line(lambda line: line.get("round") == number, 60)  # noqa: B023
                waited.append(time.monotonic() - began)
                if number == 4:
                    assert ended["state"] == "aborted"
        finally:
            silent.signal(signal.SIGCONT)
        await succeeded(coordinator)
        fleet.verify(5, everybody=False)
    print(f"synchronous rounds with a silent device ended after {', '.join(f'{s:.1f}' for s in waited)} s")


def _trained_rounds(agent: Agent) -> list[int]:
    """Rounds in which this agent begins to train from now on."""
    numbers: list[int] = []
    run = agent.trainer.run

    def note(plan: Plan, number: int, *rest: Any) -> RoundResult:
        numbers.append(number)
        return run(plan, number, *rest)

    agent.trainer.run = note  # type: ignore[method-assign,assignment]
    return numbers


def _complaints(store: Store) -> dict[int, InvitationRow]:
    """What the coordinator knows of the last device, by the newest rounds in which its disk was full."""
    rounds = [row.round for row in store.rounds.listed(TASK, limit=400) if row.state != "planned"]
    entries = {number: store.rounds.invited(TASK, number).get(LAST) for number in sorted(rounds)[-5:]}
    return {number: entry for number, entry in entries.items() if entry and "full" in (entry.reason or "")}


@pytest.mark.reliability("F9", load="agent on a small tmpfs")
@pytest.mark.slow
async def test_an_agent_with_a_full_disk_trains_nothing_says_why_and_comes_back(
    tmp_path: Path, small_disk: SmallDisk, record_property: Record
) -> None:
    async with toy_fleet(tmp_path) as fleet:
        (tmp_path / LAST).symlink_to(small_disk.folder, target_is_directory=True)
        coordinator = await fleet.coordinator(400, quorum=0.6)
        trained = _trained_rounds(fleet.agents[LAST])
        await coordinator.line(lambda line: line.get("counted") == 3)
        small_disk.fill()
        with watching(fleet) as store:
            # The first may be about a round that was trained just before the disk was full.
            await until(lambda: len(_complaints(store)) > 1, "the agent's reports")
            number, entry = max(_complaints(store).items())
            record_property("reports of a full disk", len(_complaints(store)))
            record_property("trained while full", int(number in trained))
            assert entry.state in ("failed", "declined")
            assert number not in trained
            seen = len(coordinator.lines)
            small_disk.free()
            await coordinator.line(lambda line: line.get("counted") == 3, start=seen)
            coordinator.signal(signal.SIGTERM)
            await succeeded(coordinator)
        fleet.verify(400, everybody=False, stopped=True, record=record_property)
