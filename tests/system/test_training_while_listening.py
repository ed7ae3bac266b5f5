"""A device that listens and trains at the same time: no sound is lost, and its updates count."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from auricle_edge.control import ControlClient
from tests.system.command_lines import home, round_of
from tests.system.conftest import Command
from tests.system.kept_clips import keep_clips
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DEVICE, ROUNDS = "kitchen-1", 4
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
        async with home(start, tmp_path, DEVICE) as here:
            coordinator = await here.coordinator(rounds=ROUNDS, pack="gsc12")
            told = {"config": config, "state": state, "source": room.source, "pack": "gsc12"}
            device = await here.device(DEVICE, **told)
            counted = [(await round_of(coordinator, number, 120.0))["counted"] for number in range(1, ROUNDS + 1)]
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
