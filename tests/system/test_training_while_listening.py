"""A device that listens and trains at the same time: no sound is lost, and its updates count."""

from __future__ import annotations

import asyncio
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_edge.clips import ClipSettings, ClipStore, NewClip
from auricle_edge.control import ControlClient
from auricle_fleet.broker.broker import start_broker
from tests.system.conftest import Command
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FLEET, DEVICE, ROUNDS = "home", "kitchen-1", 4
CONFIG = "[gate]\nload = 100\nheed_speech = false\nsettle = 0\non_metered = true\n[learn]\njudge = false\n"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[VirtualRoom]:
    """A room that makes sound as fast as time passes."""
    made = VirtualRoom(tmp_path / "microphone")
    made.open()
    yield made
    made.close()


def keep_clips(state: Path) -> list[np.ndarray]:
    """Give the device clips of two words by synthetic voices; the takes."""
    speech = synthesise(SynthesisSettings(words="yes,stop", speakers=4, takes=5))
    store = ClipStore(state / "clips", ClipSettings(), LogMel(load_pack("gsc12").manifest.task))
    for audio, target in zip(speech.audio, speech.targets, strict=True):
        store.add(NewClip(audio, speech.labels[target], "enrolled", 1.0))
    store.close()
    return list(speech.audio)


def test_rounds_are_counted_and_no_sound_is_dropped_while_words_are_said(
    tmp_path: Path, room: VirtualRoom, start: Callable[..., Command]
) -> None:
    state, config = tmp_path / "state", tmp_path / "edge.toml"
    takes = keep_clips(state)
    config.write_text(CONFIG)
    over = threading.Event()

    def talk() -> None:
        while not over.is_set():
            room.say(takes[0], takes[-1], pause=0.3)

    async def scenario() -> tuple[list[int], dict[str, int]]:
        users = {name: secrets.token_hex(8) for name in ("coordinator", DEVICE)}
        async with await start_broker(tmp_path, users, fleet=FLEET) as broker:
            coordinator = start(
                "cloud",
                "serve",
                "--broker",
                broker.address("coordinator").url,
                "--fleet",
                FLEET,
                "--state",
                str(tmp_path / "coordinator"),
                "--approval",
                "auto",
                "--listen",
                "none",
                "--rounds",
                str(ROUNDS),
                "--pack",
                "gsc12",
                "--json",
            )
            key = (await asyncio.to_thread(coordinator.wait_line, lambda line: "coordinator" in line))["coordinator"]
            device = start(
                "edge",
                "run",
                "--config",
                str(config),
                "--device",
                DEVICE,
                "--fleet",
                FLEET,
                "--broker",
                broker.address(DEVICE).url,
                "--coordinator",
                key,
                "--state",
                str(state),
                "--source",
                room.source,
                "--pack",
                "gsc12",
                "--json",
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
