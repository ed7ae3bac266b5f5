"""A Home Assistant as a satellite sees one: its own client, an answer over HTTP, and a device with scripted ears."""

from __future__ import annotations

import asyncio
import io
import socket
import tempfile
import threading
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from aioesphomeapi import APIClient
from aioesphomeapi.model import EntityInfo, EntityState, VoiceAssistantEventType
from numpy.typing import NDArray

from auricle_edge.listening.assist.satellite import DeviceEars, Satellite
from auricle_edge.listening.assist.settings import AssistSettings
from auricle_edge.listening.detect.newest_sound import NewestSound
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.listening.listening_thread import AudioBroadcast
from auricle_edge.listening.sound import RATE, Block, Detection

BLOCK = 800
SETTINGS = AssistSettings(listen="tcp://127.0.0.1:0", player=())


def wav(samples: NDArray[np.int16]) -> bytes:
    """A file with samples (n,)."""
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.astype("<i2").tobytes())
    return made.getvalue()


@contextmanager
def answers(**files: bytes) -> Iterator[str]:
    """A server with these answers; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path.strip("/"))
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Device:
    """A device whose sound and wake words a test makes."""

    satellite: Satellite
    taps: AudioBroadcast
    sound: NewestSound
    muted: list[bool] = field(default_factory=list)
    capture: CaptureState = field(default_factory=lambda: CaptureState(running=True))
    position: int = 0

    def hear(self, samples: NDArray[np.int16]) -> None:
        """Take sound in, block by block, as the listening thread does."""
        for at in range(0, len(samples), BLOCK):
            block = Block(samples[at : at + BLOCK], self.position, 0.0)
            self.taps.push(block)
            self.sound.take(block)
            self.position = block.end

    async def wake(self, end: int, identity: str = "aabbccddeeff") -> None:
        """Recognise a wake word that ended at a sample."""
        await self.satellite.deliver(
            Detection(identity, "computer", 0.9, "plugin", 0, self.position, end, 0.0, 0.1, "wake")
        )

    async def command(self, identity: str = "aabbccddeeff") -> None:
        """Recognise a command after it."""
        heard = Detection("00112233aabb", "stop", 0.9, "plugin", 0, 1, 1, 0.0, 0.1, "detection", identity, "computer")
        await self.satellite.deliver(heard)

    def close_microphone(self, *, muted: bool) -> None:
        self.capture = CaptureState(running=False, muted=muted)
        self.satellite.on_capture(self.capture)


class _Recent:
    def __init__(self, sound: NewestSound) -> None:
        self._sound = sound

    @property
    def newest(self) -> int:
        return self._sound.ring.newest

    @property
    def oldest(self) -> int:
        return self._sound.ring.oldest

    def audio(self, start: int, end: int) -> NDArray[np.int16]:
        return self._sound.ring.read(start, end)


@asynccontextmanager
async def device(name: str = "Kitchen 1", folder: Path | None = None, **settings: Any) -> AsyncIterator[Device]:
    """One that listens for Home Assistant."""
    taps, sound = AudioBroadcast(), NewestSound(12 * RATE)
    mutes: list[bool] = []
    made: Device

    def mute(on: bool) -> None:
        mutes.append(on)
        made.capture = CaptureState(running=not on, muted=on)
        made.satellite.on_capture(made.capture)

    with tempfile.TemporaryDirectory() as kept:
        ears = DeviceEars(
            name=name,
            model="home",
            wake=("computer", "jarvis"),
            recent=_Recent(sound),
            taps=taps,
            capture=lambda: made.capture,
            folder=folder or Path(kept),
            mute=mute,
        )
        made = Device(Satellite(msgspec.structs.replace(SETTINGS, **settings), ears), taps, sound, mutes)
        await made.satellite.open()
        try:
            yield made
        finally:
            await made.satellite.close()


class Home:
    """A Home Assistant that notes what it is told."""

    def __init__(self, client: APIClient) -> None:
        self.client = client
        self.starts: list[str | None] = []
        self.aborts: list[bool] = []
        self.audio = bytearray()
        self.finished: list[bool] = []
        self.states: dict[int, EntityState] = {}
        self.told: list[EntityState] = []
        """Every state, the oldest first."""
        self.entities: dict[str, EntityInfo] = {}

    @property
    def samples(self) -> NDArray[np.int16]:
        """(n,) that it was sent."""
        return np.frombuffer(bytes(self.audio), "<i2")

    async def subscribe(self) -> None:
        """Ask for everything, as Home Assistant's integration does."""
        entities, _ = await self.client.list_entities_services()
        self.entities = {each.object_id: each for each in entities}

        def note(state: EntityState) -> None:
            self.states[state.key] = state
            self.told.append(state)

        self.client.subscribe_states(note)

        async def start(_: str, __: int, ___: object, phrase: str | None) -> int:
            self.starts.append(phrase)
            return 0

        async def stop(abort: bool) -> None:
            self.aborts.append(abort)

        async def audio(data: bytes, _: bytes | None = None) -> None:
            self.audio += data

        async def finished(message: Any) -> None:
            self.finished.append(message.success)

        self.client.subscribe_voice_assistant(
            handle_start=start, handle_stop=stop, handle_audio=audio, handle_announcement_finished=finished
        )

    def say(self, kind: str, **data: str) -> None:
        """Tell an event by the end of its name."""
        self.client.send_voice_assistant_event(VoiceAssistantEventType[f"VOICE_ASSISTANT_{kind}"], data)


@asynccontextmanager
async def home(port: int, key: str | None = None, *, subscribed: bool = True) -> AsyncIterator[Home]:
    """A Home Assistant that is connected."""
    client = APIClient("127.0.0.1", port, None, noise_psk=key)
    await client.connect(login=True)
    made = Home(client)
    try:
        if subscribed:
            await made.subscribe()
            await until(lambda: len(made.states) > 0)
        yield made
    finally:
        await client.disconnect(force=True)


async def until(condition: Any, seconds: float = 10.0) -> None:
    """Wait for something to be so."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "in vain"
        await asyncio.sleep(0.01)


def player(folder: Path, name: str = "played.wav", *, code: int = 0) -> tuple[str, ...]:
    """A program that keeps what it is given to play."""
    script = folder / f"player-{name}.sh"
    script.write_text(f"#!/bin/sh\ncat >> {folder / name}\nexit {code}\n")
    script.chmod(0o755)
    return (str(script),)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
