"""Two devices of one home at its broker: one of them answers, Home Assistant finds both and sees one go."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_edge.control import ControlClient
from tests.edge.home_assistant_schemas import violations
from tests.edge.test_outputs import home_broker
from tests.system.command_lines import run
from tests.system.conftest import Command
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NAMES = ("hall-1", "kitchen-1")
SETTINGS = """pack = "gsc12"
[detect]
wake = ["yes"]
threshold = 0.6
[events]
mqtt = "mqtt://127.0.0.1:{port}"
mqtt_discovery = true
mqtt_one_answer = true
"""


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "in vain"
        await asyncio.sleep(0.05)


def listens(state: Path) -> bool:
    return (state / "control.sock").exists() and bool(ControlClient(state).get("/v1/status")["capture"]["running"])


def said(rooms: list[VirtualRoom], takes: list[NDArray[np.int16]]) -> None:
    """Say the takes in both rooms at once, far from the second."""
    quiet = [(take * 0.2).astype(np.int16) for take in takes]
    threads = [threading.Thread(target=room.say, args=each) for room, each in zip(rooms, (takes, quiet), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_of_two_devices_the_nearer_answers_and_one_that_is_killed_is_gone(
    tmp_path: Path, start: Callable[..., Command]
) -> None:
    speech = synthesise(SynthesisSettings(words="yes,stop", speakers=3, takes=2))
    takes = [speech.audio[at] for at in np.flatnonzero(speech.targets == speech.labels.index("yes"))]
    rooms = [VirtualRoom(tmp_path / f"microphone-{name}") for name in NAMES]
    states = [tmp_path / name for name in NAMES]
    seen: dict[str, str] = {}

    async def listen(message: Delivery) -> None:
        seen[message.topic] = message.payload.decode()

    async def story() -> None:
        process, address = await home_broker(tmp_path)
        config = tmp_path / "edge.toml"
        config.write_text(SETTINGS.format(port=address.port))
        commands = []
        for room, name, state in zip(rooms, NAMES, states, strict=True):
            room.open()
            commands.append(start(*run(config=config, device=name, state=state, source=room.source)))
        handlers = {"homeassistant/#": listen, "auricle-events/#": listen}
        async with MqttLink(LinkSettings(address, "hub"), handlers=handlers) as hub:
            await hub.wait_connected(20)
            await until(lambda: all(seen.get(f"auricle-events/{name}/availability") == "online" for name in NAMES))
            assert sum(topic.startswith("homeassistant/switch/") for topic in seen) == 2
            assert [
                said
                for topic, text in seen.items()
                if topic.endswith("/config")
                for said in violations(topic, json.loads(text))
            ] == []
            await until(lambda: all(listens(state) for state in states))
            await asyncio.to_thread(said, rooms, takes)
            near, far = (ControlClient(state) for state in states)

            def settled() -> bool:
                """No word has two answers, and most are the nearer one's: a busy machine may hear one much later."""
                told = [each.get("/v1/status") for each in (near, far)]
                answered = [each["listening"]["wakes"] - each["left"] for each in told]
                return 0 < sum(answered) <= len(takes) and answered[0] > answered[1] and told[1]["left"] > 0

            await until(settled, 20)
            heard = json.loads(seen["auricle-events/hall-1/heard"])
            assert heard["event_type"] == "yes" and heard["over_noise"] > 10
            await hub.publish("auricle-events/hall-1/mute/set", b"ON")
            await until(lambda: json.loads(seen["auricle-events/hall-1/state"])["muted"] == "ON")
            assert ControlClient(states[0]).get("/v1/status")["capture"]["muted"]
            commands[1].signal(signal.SIGKILL)
            await until(lambda: seen["auricle-events/kitchen-1/availability"] == "offline")
        await process.stop()

    try:
        asyncio.run(story())
    finally:
        for room in rooms:
            room.close()
