"""A device with a real Home Assistant: its entities, its mute switch, and commands after a wake word.

Home Assistant starts with an empty configuration on loopback, beside a device in a virtual room. It installs nothing at
its start (`--skip-pip`): what `requirements` in the `manifest.json` of frontend, mqtt, esphome, wyoming,
assist_pipeline, conversation and their dependencies name has to be in the folder, too.

    python3.14 -m venv FOLDER && FOLDER/bin/pip install homeassistant home-assistant-frontend paho-mqtt ...
    python bench/home_assistant.py FOLDER      # starts FOLDER/bin/hass; needs mosquitto, espeak-ng and ffmpeg
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.test_utils import unused_port
from wyoming.asr import Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.event import Event
from wyoming.info import AsrModel, AsrProgram, Attribution, Describe, Info, TtsProgram, TtsVoice
from wyoming.server import AsyncEventHandler, AsyncServer
from wyoming.tts import Synthesize

from auricle.errors import AuricleError
from auricle.speech.synthesis import SynthesisSettings, synthesise

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.home_broker import home_broker
from tests.system.virtual_room import VirtualRoom

from bench.home_assistant_hub import Hub

WAKES = 10
MUTE, SATELLITE = "switch.kitchen_1_mute", "assist_satellite.kitchen_1_assist_satellite"
HUB = """
homeassistant: {{internal_url: "http://127.0.0.1:{port}"}}
http: {{server_host: 127.0.0.1, server_port: {port}}}
logger: {{default: warning}}
api:
config:
onboarding:
assist_pipeline:
"""
EDGE = """
device = "kitchen-1"
state = "{folder}/state"
capture.source = "fifo:{folder}/microphone"
events.mqtt = "mqtt://127.0.0.1:{broker}"
events.mqtt_discovery = true
assist.listen = "tcp://127.0.0.1:{assist}"
assist.player = ["sh", "-c", "cat > /dev/null; echo >> {folder}/played"]
"""
TLS = {"set_client_cert": False, "set_ca_cert": "off", "transport": "tcp"}


class Speech(AsyncEventHandler):
    """Speech to text that understands the same whatever is said, and a voice that is a second of silence."""

    commands = 0

    async def handle_event(self, event: Event) -> bool:
        """Answer what Home Assistant asks."""
        if Describe.is_type(event.type):
            about: dict[str, Any] = {"name": "bench", "attribution": Attribution("", ""), "installed": True}
            about |= {"description": "", "version": "1"}
            ears = AsrProgram(**about, models=[AsrModel(**about, languages=["en"])])
            voice = TtsProgram(**about, voices=[TtsVoice(**about, languages=["en"])])
            await self.write_event(Info(asr=[ears], tts=[voice]).event())
        elif AudioStop.is_type(event.type):
            Speech.commands += 1
            await self.write_event(Transcript("what time is it").event())
        elif Synthesize.is_type(event.type):
            await self.write_event(AudioStart(16000, 2, 1).event())
            await self.write_event(AudioChunk(16000, 2, 1, bytes(32000)).event())
            await self.write_event(AudioStop().event())
        return True


@contextlib.asynccontextmanager
async def program(log: Path, *command: str) -> AsyncIterator[None]:
    """A program for as long as the block lasts."""
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(*command, stdout=file, stderr=file, start_new_session=True)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        await process.wait()


async def try_device(hub: Hub, room: VirtualRoom, played: Path) -> None:
    """Print what Home Assistant has made of the device, and how often each thing worked."""
    await hub.becomes(SATELLITE, "idle")
    for wanted in ("on", "off"):
        await hub.ask("post", f"/api/services/switch/turn_{wanted}", {"entity_id": MUTE})
        await hub.becomes(MUTE, wanted)
    speech, count = synthesise(SynthesisSettings(words="computer,seven", speakers=WAKES, takes=1)), 0
    computer, seven = (speech.audio[speech.targets == speech.labels.index(word)] for word in ("computer", "seven"))
    for number in range(WAKES):
        before = Speech.commands
        await asyncio.to_thread(room.say, computer[number], seven[number], seven[number], pause=0.1)
        await hub.becomes(SATELLITE, "idle")
        count += Speech.commands == before + 1
    for entity, state in sorted((await hub.states()).items()):
        if "kitchen_1" in entity:
            print(f"{entity:48} {state}")
    print(f"commands after a wake word: {count} of {WAKES} understood, {len(played.read_bytes())} answers played")


async def main(folder: Path) -> None:
    """Start all of it, and print what came of it."""
    with tempfile.TemporaryDirectory() as name:
        here, hub_port, speech_port, assist_port = Path(name), unused_port(), unused_port(), unused_port()
        (here / "hub").mkdir()
        (here / "hub/configuration.yaml").write_text(HUB.format(port=hub_port))
        broker, address = await home_broker(here)
        (here / "edge.toml").write_text(EDGE.format(folder=here, broker=address.port, assist=assist_port))
        room, speech = VirtualRoom(here / "microphone"), AsyncServer.from_uri(f"tcp://127.0.0.1:{speech_port}")
        room.open()
        await speech.start(Speech)
        hass = (str(folder / "bin/hass"), "-c", str(here / "hub"), "--skip-pip")
        device = (sys.executable, "-m", "auricle", "edge", "run", "--config", str(here / "edge.toml"))
        web = aiohttp.ClientSession()
        try:
            async with program(here / "edge.log", *device), program(here / "hub.log", *hass), web:
                hub = Hub(web, f"http://127.0.0.1:{hub_port}")
                await hub.sign_in()
                await hub.add("wyoming", host="127.0.0.1", port=speech_port)
                await hub.speak_with("stt.bench", "tts.bench")
                await hub.add("mqtt", broker="127.0.0.1", port=address.port, protocol="5", other_settings=TLS)
                await hub.becomes(MUTE, "off")
                await hub.add("esphome", host="127.0.0.1", port=assist_port)
                await try_device(hub, room, here / "played")
        finally:
            room.close()
            await speech.stop()
            await broker.stop()
        for line in (here / "hub.log").read_text().splitlines():
            if "WARNING" in line or "ERROR" in line:
                print(line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where Home Assistant is installed")
    try:
        asyncio.run(main(parser.parse_args().folder))
    except AuricleError as error:
        sys.exit(str(error))
