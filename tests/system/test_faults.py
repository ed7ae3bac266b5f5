"""Processes that die in the middle: agents, the broker, the coordinator."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from auricle_fleet.broker.broker import Broker, start_broker
from tests.system.command_lines import run, serve
from tests.system.conftest import Command

FLEET = "test"
DEVICES = ("dev-a", "dev-b", "dev-c")


class Site:
    """A broker, a coordinator and three agents, each a process of its own."""

    def __init__(self, broker: Broker, start: Callable[..., Command], speech: Path, folder: Path) -> None:
        self.broker, self._start, self._speech, self._folder = broker, start, speech, folder
        self.key = ""
        self.speakers = sorted({p.name.split("_nohash_")[0] for p in speech.rglob("*.wav")})

    def serve(self, rounds: int, *options: str) -> Command:
        return self._start(
            *serve(
                broker=self.broker.address("coordinator").url,
                fleet=FLEET,
                devices="3",
                state=self._folder / "coordinator",
                rounds=rounds,
                quorum="0.6",
                pack="gsc12",
            ),
            *options,
        )

    def coordinator(self, rounds: int, *options: str) -> Command:
        command = self.serve(rounds, *options)
        self.key = command.wait_line(lambda line: "coordinator" in line)["coordinator"]
        return command

    def agent(self, name: str) -> Command:
        command = self._start(
            *run(
                device=name,
                fleet=FLEET,
                broker=self.broker.address(name).url,
                coordinator=self.key,
                data=self._speech,
                state=self._folder / name,
                speaker=self.speakers[DEVICES.index(name)],
                pack="gsc12",
            )
        )
        command.wait_line(lambda line: "training_clips" in line)
        return command


@asynccontextmanager
async def site(start: Callable[..., Command], speech: Path, folder: Path) -> AsyncIterator[Site]:
    users = {name: secrets.token_hex(8) for name in ("coordinator", *DEVICES)}
    async with await start_broker(folder, users, fleet=FLEET, persistence=False) as broker:
        yield Site(broker, start, speech, folder)


@pytest.mark.reliability("F3", load="one kill")
@pytest.mark.slow
def test_an_agent_killed_in_a_round_costs_no_round_and_comes_back(
    start: Callable[..., Command], speech_folder: Path, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with site(start, speech_folder, tmp_path) as here:
            coordinator = here.coordinator(1000, "--deadline", "60")
            agents = {name: here.agent(name) for name in DEVICES}
            await asyncio.to_thread(coordinator.wait_line, lambda line: line.get("round") == 2)

            agents["dev-c"].signal(signal.SIGKILL)
            lacking = await asyncio.to_thread(coordinator.wait_line, lambda line: line.get("counted") == 2)
            here.agent("dev-c")
            back = await asyncio.to_thread(
                coordinator.wait_line,
                lambda line: line.get("round", 0) > lacking["round"] and line["counted"] == 3,
            )
            coordinator.signal(signal.SIGTERM)
            code = await asyncio.to_thread(coordinator.end)

            assert lacking["state"] == "published"
            assert back["invited"] == 3
            assert code == 0

    asyncio.run(scenario())


@pytest.mark.slow
def test_the_broker_restarted_without_its_memory_does_not_end_the_run(
    start: Callable[..., Command], speech_folder: Path, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with site(start, speech_folder, tmp_path) as here:
            coordinator = here.coordinator(6)
            for name in DEVICES:
                here.agent(name)
            await asyncio.to_thread(coordinator.wait_line, lambda line: line.get("round") == 2)

            here.broker.kill()
            await here.broker.restart()
            last = await asyncio.to_thread(coordinator.wait_line, lambda line: line.get("round") == 6, 100.0)
            code = await asyncio.to_thread(coordinator.end)

            assert last["state"] == "published"
            assert code == 0, coordinator.errors

    asyncio.run(scenario())


@pytest.mark.reliability("F1", load="one kill -9 in a round")
@pytest.mark.slow
def test_a_coordinator_killed_in_a_round_goes_on_where_it_was(
    start: Callable[..., Command], speech_folder: Path, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with site(start, speech_folder, tmp_path) as here:
            first = here.coordinator(6)
            for name in DEVICES:
                here.agent(name)
            await asyncio.to_thread(first.wait_line, lambda line: line.get("round") == 2)

            first.signal(signal.SIGKILL)
            first.end()
            second = here.coordinator(6)
            last = await asyncio.to_thread(second.wait_line, lambda line: line.get("round") == 6, 100.0)
            code = await asyncio.to_thread(second.end)

            assert second.lines[0]["epoch"] == first.lines[0]["epoch"] + 1
            assert last["state"] == "published"
            assert code == 0, second.errors
            told = [line["round"] for line in (*first.lines, *second.lines) if "round" in line]
            assert sorted(set(told)) == [1, 2, 3, 4, 5, 6]

    asyncio.run(scenario())


@pytest.mark.reliability("F11", load="two coordinators")
@pytest.mark.slow
def test_a_coordinator_that_another_took_over_from_ends_with_one_sentence(
    start: Callable[..., Command], speech_folder: Path, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with site(start, speech_folder, tmp_path) as here:
            first = here.coordinator(2)
            beside = here.serve(2)
            assert await asyncio.to_thread(beside.end) == 7
            assert "--take-over" in beside.errors
            second = here.coordinator(2, "--take-over")
            code = await asyncio.to_thread(first.end)
            second.signal(signal.SIGTERM)

            assert second.lines[0]["epoch"] == first.lines[0]["epoch"] + 1
            assert code == 2
            assert "A newer coordinator has taken over this database: this one stops." in first.errors
            assert "Traceback" not in first.errors
            assert await asyncio.to_thread(second.end) == 0

    asyncio.run(scenario())
