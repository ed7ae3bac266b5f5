"""A device that listens and trains at the same time: no sound is lost, and its updates count."""

from __future__ import annotations

import asyncio
import secrets
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from auricle_edge.control import ControlClient
from auricle_fleet.broker.broker import start_broker
from tests.system.command_lines import run, serve
from tests.system.conftest import Command
from tests.system.kept_clips import keep_clips
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FLEET, DEVICE, ROUNDS = "home", "kitchen-1", 4
CONFIG = "[gate]\nload = 100\nheed_speech = false\nsettle = 0\non_metered = true\n[learn]\njudge = false\n"


def test_rounds_are_counted_and_no_sound_is_dropped_while_words_are_said(
    tmp_path: Path, room: VirtualRoom, start: Callable[..., Command]
) -> None:
    state, config = tmp_path / "state", tmp_path / "edge.toml"
    takes = keep_clips(state, "gsc12")
    config.write_text(CONFIG)
    over = threading.Event()

    def talk() -> None:
        while not over.is_set():
            room.say(takes[0], takes[-1], pause=0.3)

    async def scenario() -> tuple[list[int], dict[str, int]]:
        users = {name: secrets.token_hex(8) for name in ("coordinator", DEVICE)}
        async with await start_broker(tmp_path, users, fleet=FLEET) as broker:
            coordinator = start(
                *serve(
                    broker=broker.address("coordinator").url,
                    fleet=FLEET,
                    state=tmp_path / "coordinator",
                    rounds=ROUNDS,
                    pack="gsc12",
                )
            )
            key = (await asyncio.to_thread(coordinator.wait_line, lambda line: "coordinator" in line))["coordinator"]
            device = start(
                *run(
                    config=config,
                    device=DEVICE,
                    fleet=FLEET,
                    broker=broker.address(DEVICE).url,
                    coordinator=key,
                    state=state,
                    source=room.source,
                    pack="gsc12",
                )
            )
            await asyncio.to_thread(device.wait_line, lambda line: "words" in line)
            counted = []
            for number in range(1, ROUNDS + 1):
                done = await asyncio.to_thread(
                    coordinator.wait_line, lambda line, number=number: line.get("round") == number, 120.0
                )
                counted.append(done["counted"])
            status = await asyncio.to_thread(ControlClient(state).get, "/v1/status")
            device.signal(signal.SIGTERM)
            assert await asyncio.to_thread(device.end) == 0, device.errors
        return counted, {**status["capture"], "failures": status["judging_failures"], **status["listening"]}

    talking = threading.Thread(target=talk)
    talking.start()
    try:
        counted, heard = asyncio.run(scenario())
    finally:
        over.set()
        talking.join()

    assert counted == [1] * ROUNDS
    assert (heard["dropped"], heard["restarts"], heard["failures"]) == (0, {}, 0)
    assert heard["windows"] > 0
