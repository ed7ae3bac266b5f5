"""The service at its home's broker: a press and a number there change it, and a new name leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle.speech.synthesis import SynthesisSettings, synthesise
from tests.edge.home_assistant_schemas import update_violations, violations
from tests.home_broker import home_broker
from tests.system.command_lines import run
from tests.system.conftest import Command
from tests.system.test_home_devices import listens, until
from tests.system.test_listening_service import ask
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS = """pack = "gsc12"
[detect]
wake = ["yes"]
threshold = 0.6
ring = 60
[labels]
confirm_seconds = 120
missed_seconds = 40
[events]
mqtt = "mqtt://127.0.0.1:{port}"
mqtt_discovery = true
mqtt_feedback = true
mqtt_buttons = true
"""
BASE = "auricle-events/kitchen-1"


def test_the_home_confirms_misses_and_tunes_and_a_renamed_device_is_gone(
    tmp_path: Path, room: VirtualRoom, start: Callable[..., Command]
) -> None:
    speech = synthesise(SynthesisSettings(words="yes,stop", speakers=3, takes=2))
    takes = [speech.audio[at] for at in np.flatnonzero(speech.targets == speech.labels.index("yes"))]
    state, config = tmp_path / "state", tmp_path / "edge.toml"
    kept, heard, answers = dict[str, bytes](), list[str](), list[dict[str, str]]()

    async def listen(message: Delivery) -> None:
        if message.topic.endswith("/heard"):
            heard.append(json.loads(message.payload)["event_type"])
        elif message.topic.endswith("/answer"):
            answers.append(json.loads(message.payload))
        elif not message.payload:
            kept.pop(message.topic, None)
        elif message.topic.endswith(("/config", "/availability", "/state", "/update")):
            kept[message.topic] = message.payload

    def threshold(name: str) -> float:
        return float(json.loads(kept[f"auricle-events/{name}/state"])["thresholds"]["yes"])

    def sources() -> list[str]:
        return [clip["source"] for clip in ask(state, "clips", "list")["clips"]]

    async def begun(name: str, address: BrokerAddress) -> Command:
        config.write_text(SETTINGS.format(port=address.port))
        command = start(*run(config=config, device=name, state=state, source=room.source))
        await until(lambda: kept.get(f"auricle-events/{name}/availability") == b"online" and listens(state))
        return command

    async def story() -> None:
        process, address = await home_broker(tmp_path)
        async with MqttLink(LinkSettings(address, "hub"), handlers={"#": listen}) as hub:
            await hub.wait_connected(20)
            service = await begun("kitchen-1", address)
            configs = {topic: json.loads(text) for topic, text in kept.items() if topic.endswith("/config")}
            assert [said for topic, config in configs.items() for said in violations(topic, config)] == []
            assert not update_violations(kept[f"{BASE}/update"])
            state_said = json.loads(kept[f"{BASE}/state"])
            assert state_said["disk"] > 0 and state_said["memory"] > 0 and state_said["problem"] is None
            assert "homeassistant/sensor/kitchen-1/disk/config" in kept
            assert not any("/round/" in topic for topic in kept), "it has no fleet"
            assert threshold("kitchen-1") == 0.6
            await hub.publish(f"{BASE}/threshold/yes/set", b"0.5")
            await until(lambda: threshold("kitchen-1") == 0.5)
            await asyncio.to_thread(room.say, *takes)
            await until(lambda: "yes" in heard)
            await hub.publish(f"{BASE}/press", b"confirm")
            await until(lambda: answers)
            assert answers[0]["word"] == "yes" and "confirmed" in await asyncio.to_thread(sources)
            noise = np.random.default_rng(1).normal(0, 3000, 8000).astype(np.int16)
            await asyncio.to_thread(room.say, noise)
            await hub.publish(f"{BASE}/press", b"missed yes")
            await until(lambda: len(answers) == 2)
            assert answers[1]["word"] == "yes" and "missed" in await asyncio.to_thread(sources)
            service.signal(signal.SIGTERM)
            await until(lambda: kept[f"{BASE}/availability"] == b"offline")
            await asyncio.to_thread(service.process.wait, 30)
            await begun("hall-1", address)
            await until(lambda: not any("kitchen-1" in topic for topic in kept))
            assert threshold("hall-1") == 0.5
        await process.stop()

    asyncio.run(story())
