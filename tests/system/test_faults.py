"""Processes that die in the middle: agents, the broker, the coordinator."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.recorder import Record
from tests.system.command_lines import Home, home, round_of, said
from tests.system.conftest import Command

DEVICES = ("dev-a", "dev-b", "dev-c")


class Site:
    """A coordinator and three agents, each a process of its own."""

    def __init__(self, home: Home, speech: Path) -> None:
        self.home, self._speech = home, speech
        self._speakers = sorted({p.name.split("_nohash_")[0] for p in speech.rglob("*.wav")})

    async def coordinator(self, rounds: int, *options: str) -> Command:
        return await self.home.coordinator(*options, devices="3", rounds=rounds, quorum="0.6", pack="gsc12")

    async def agent(self, name: str) -> Command:
        speaker = self._speakers[DEVICES.index(name)]
        return await self.home.device(name, "training_clips", data=self._speech, speaker=speaker, pack="gsc12")

    async def agents(self) -> dict[str, Command]:
        return {name: await self.agent(name) for name in DEVICES}


@pytest.fixture
def site(start: Callable[..., Command], speech_folder: Path, tmp_path: Path) -> Any:
    @asynccontextmanager
    async def begun() -> AsyncIterator[Site]:
        async with home(start, tmp_path, *DEVICES) as here:
            yield Site(here, speech_folder)

    return begun


@pytest.mark.reliability("F3", load="one kill")
@pytest.mark.slow
async def test_an_agent_killed_in_a_round_costs_no_round_and_comes_back(site: Any, record_property: Record) -> None:
    async with site() as here:
        coordinator = await here.coordinator(1000, "--deadline", "60")
        agents = await here.agents()
        await round_of(coordinator, 2)
        agents["dev-c"].signal(signal.SIGKILL)
        died = time.monotonic()
        record_property("kills", int(await asyncio.to_thread(agents["dev-c"].end) == -signal.SIGKILL))
        lacking = await said(coordinator, lambda line: line.get("counted") == 2)
        record_property("next round over s", round(time.monotonic() - died, 1))
        await here.agent("dev-c")
        back = await said(coordinator, lambda line: line.get("round", 0) > lacking["round"] and line["counted"] == 3)
        coordinator.signal(signal.SIGTERM)
        assert await asyncio.to_thread(coordinator.end) == 0
        assert lacking["state"] == "published"
        assert back["invited"] == 3


@pytest.mark.slow
@pytest.mark.nightly
async def test_the_broker_restarted_without_its_memory_does_not_end_the_run(site: Any) -> None:
    async with site() as here:
        coordinator = await here.coordinator(6)
        await here.agents()
        await round_of(coordinator, 2)
        here.home.broker.kill()
        await here.home.broker.restart()
        assert (await round_of(coordinator, 6, 100.0))["state"] == "published"
        assert await asyncio.to_thread(coordinator.end) == 0, coordinator.errors


@pytest.mark.reliability("F1", load="one kill -9 in a round")
@pytest.mark.slow
async def test_a_coordinator_killed_in_a_round_goes_on_where_it_was(site: Any, record_property: Record) -> None:
    async with site() as here:
        first = await here.coordinator(6)
        await here.agents()
        await round_of(first, 2)
        first.signal(signal.SIGKILL)
        record_property("kills", int(first.end() == -signal.SIGKILL))
        began = time.monotonic()
        second = await here.coordinator(6)
        record_property("resume s", round(time.monotonic() - began, 2))
        assert (await round_of(second, 6, 100.0))["state"] == "published"
        assert await asyncio.to_thread(second.end) == 0, second.errors
        assert second.lines[0]["epoch"] == first.lines[0]["epoch"] + 1
        told = [line["round"] for line in (*first.lines, *second.lines) if "round" in line]
        record_property("rounds", len(set(told)))
        assert sorted(set(told)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.reliability("F11", load="two coordinators")
@pytest.mark.slow
async def test_a_coordinator_that_another_took_over_from_ends_with_one_sentence(
    site: Any, record_property: Record
) -> None:
    async with site() as here:
        first = await here.coordinator(2)
        with pytest.raises(AssertionError, match="--take-over"):
            await here.coordinator(2)
        second = await here.coordinator(2, "--take-over")
        began = time.monotonic()
        assert await asyncio.to_thread(first.end) == 2
        record_property("the first gone s", round(time.monotonic() - began, 1))
        second.signal(signal.SIGTERM)
        assert second.lines[0]["epoch"] == first.lines[0]["epoch"] + 1
        assert "newer coordinator" in first.errors and "Traceback" not in first.errors
        assert await asyncio.to_thread(second.end) == 0
