"""A real agent as a satellite: a recording as its microphone, Home Assistant's own client, an answer over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

pytest.importorskip("aioesphomeapi", reason="the aioesphomeapi package is not installed")

from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_edge.listening.sound import RATE
from tests.edge.assist_home import answers, free_port, home, player, until, wav
from tests.edge.test_outputs import home_broker
from tests.system.command_lines import run
from tests.system.conftest import Command
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS = """pack = "gsc12"
[capture]
high_pass = 0
[detect]
wake = ["yes"]
threshold = 0.6
commands = { stop = 0.5 }
[assist]
listen = "tcp://127.0.0.1:PORT"
player = ["PLAYER"]
"""


def takes(word: str) -> list[np.ndarray]:
    speech = synthesise(SynthesisSettings(words="yes,stop", speakers=3, takes=2))
    return [speech.audio[at] for at in np.flatnonzero(speech.targets == speech.labels.index(word))]


def test_from_a_word_in_a_recording_to_an_answer_that_is_played(tmp_path: Path, start: Callable[..., Command]) -> None:
    """What Home Assistant gets is a piece of the recording, sample by sample, that begins at the end of a word."""
    words = takes("yes")
    rng = np.random.default_rng(0)
    pieces = [rng.normal(0, 20, 2 * RATE)]
    starts = [(2 + 7 * at) * RATE for at in range(len(words))]
    for word in words:
        pieces += [word + rng.normal(0, 20, len(word)), rng.normal(0, 20, 6 * RATE)]
    recording = np.clip(np.concatenate(pieces), -32768, 32767).astype(np.int16)
    soundfile.write(tmp_path / "room.wav", recording, RATE)
    said, port = rng.integers(-9000, 9000, RATE // 5, np.int16), free_port()
    config = tmp_path / "edge.toml"
    config.write_text(SETTINGS.replace("PORT", str(port)).replace("PLAYER", player(tmp_path)[0]))
    source = f"file:{tmp_path}/room.wav?loop=1"
    agent = start(*run(config=config, device="kitchen-1", state=tmp_path / "state", source=source))

    async def story() -> None:
        with answers(answer=wav(said)) as url:
            await listening(port)
            async with home(port) as seen:
                await until(lambda: seen.starts == ["yes"], 60)
                await until(lambda: len(seen.samples) > RATE, 20)
                seen.say("RUN_START")
                seen.say("STT_VAD_END")
                seen.say("TTS_END", url=f"{url}/answer")
                seen.say("RUN_END")
                await until(lambda: seen.finished == [True], 20)
                heard = seen.samples.astype("<i2").tobytes()
                begin = recording.astype("<i2").tobytes().find(heard[: 2 * RATE]) // 2
                assert any(at < begin <= at + RATE * 1.2 for at in starts), "not from the end of a word on"
                assert (tmp_path / "played.wav").read_bytes()[44:] == said.tobytes()

    asyncio.run(story())
    assert "Traceback" not in agent.errors


def test_a_command_is_answered_by_the_device_and_of_two_devices_one_asks(
    tmp_path: Path, start: Callable[..., Command]
) -> None:
    """Both rooms hear "yes" and "stop": one device begins a run, and ends it when it has heard the command."""
    names, rooms, ports = ("hall-1", "kitchen-1"), [], []
    spoken = [
        np.concatenate((word, np.zeros(RATE // 2), stop))
        for word, stop in zip(takes("yes"), takes("stop"), strict=True)
    ]

    async def story() -> None:
        process, address = await home_broker(tmp_path)
        for name in names:
            room, port = VirtualRoom(tmp_path / f"microphone-{name}"), free_port()
            room.open()
            rooms.append(room)
            ports.append(port)
            config = tmp_path / f"{name}.toml"
            settings = SETTINGS.replace("PORT", str(port)).replace("PLAYER", player(tmp_path, name)[0])
            config.write_text(f'{settings}[events]\nmqtt = "mqtt://127.0.0.1:{address.port}"\nmqtt_one_answer = true\n')
            start(*run(config=config, device=name, state=tmp_path / name, source=room.source))
        for port in ports:
            await listening(port)
        async with home(ports[0]) as hall, home(ports[1]) as kitchen:
            for word in spoken:
                both = zip(rooms, (word, (word * 0.2).astype(np.int16)), strict=True)
                threads = [threading.Thread(target=room.say, args=each) for room, *each in both]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    await asyncio.to_thread(thread.join)
                if hall.starts or kitchen.starts:
                    break
            asked = [each for each in (hall, kitchen) if each.starts]
            assert len(asked) == 1, "two devices asked, or none"
            await until(lambda: asked[0].aborts == [True])
        await process.stop()

    try:
        asyncio.run(story())
    finally:
        for room in rooms:
            room.close()


async def listening(port: int) -> None:
    """Wait until an agent takes connections."""

    def connects() -> bool:
        import socket

        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    await until(connects, 90)
