"""From a wake word to Home Assistant's assistant: how soon, whether a syllable is missed, and of two devices only one.

Thirty commands are said straight after a wake word by a synthetic voice, to a real agent; what an assistant gets over
ESPHome's native API is looked up in the recording. Then two agents hear the same words, with `mqtt_one_answer` over a
real mosquitto. About six minutes, since the agents listen as fast as time passes.

    python bench/assist.py [--commands 30] [--gap 0.05] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
import soundfile
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.edge.assist_home import Home, free_port, home, until
from tests.home_broker import home_broker
from tests.system.command_lines import run
from tests.system.conftest import Command
from tests.system.virtual_room import VirtualRoom

from auricle.errors import DataError
from auricle.packs.pack import load_pack
from auricle.packs.start import start_weights
from auricle_edge.control import ControlClient
from auricle_edge.listening.detect import Detector, DetectTable, detect_settings
from auricle_edge.listening.detect.vote import load_voter
from auricle_edge.listening.sound import RATE, Block, Detection
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from auricle_export.voices.espeak_ng import EspeakNg
from auricle_learning.runtimes import frontend_of, recogniser
from bench.answer import answer

PACK = "home"
COMMANDS = (
    *("turn on the light", "what time is it", "set a timer for five minutes", "is it going to rain"),
    *("add milk to the list", "play some music", "open the blinds", "how warm is it", "close the garage door"),
    *("dim the lamps", "ask the oven", "every light off", "unlock the door", "answer the phone", "I am cold"),
    *("are we late", "early alarm please", "who is there", "when is dinner", "read me the news", "please call mum"),
    *("tell me a joke", "begin the dishwasher", "good night", "cook some eggs", "pause the film", "quiet please"),
    *("find my keys", "vacuum the hall", "where is the cat"),
)
HISS = 30.0
"""Standard deviation of the room's noise, in steps of int16: it makes every piece of the recording one of its kind."""
LOUD = 0.4
SECONDS_SENT = 1.5
"""Of sound after which the assistant says that it has enough."""
PAUSE_SECONDS = 4.0
FAR = 0.4
"""As loud as in the first room it is in the second."""
TRIES = 3
"""All words are said again where not both devices have heard each."""
SETTINGS = """pack = "{pack}"
[capture]
high_pass = 0
[assist]
listen = "tcp://127.0.0.1:{port}"
player = []
"""
ONE_ANSWER = """[events]
mqtt = "mqtt://127.0.0.1:{port}"
mqtt_one_answer = true
"""


class Figures(msgspec.Struct, frozen=True):
    """What was measured."""

    commands: int
    """That followed a wake word which was heard."""
    gap_seconds: float
    """Between the word and its command."""
    median_ms: float
    """From the decision to the first sound at the assistant."""
    most_ms: float
    missed: int
    """Commands of which the beginning was not sent."""
    before_ms: float
    """Median of the sound that was sent from before the end of the wake word."""
    words: int
    """That two devices heard."""
    one_run: int
    """For which one run began, and no second."""


class Utterance(msgspec.Struct, frozen=True):
    """A wake word with its command."""

    samples: NDArray[np.int16]
    word_end: int
    command: int
    """Its first sample."""


def utterances(count: int, gap: float) -> list[Utterance]:
    """Commands after wake words that a detector hears; DataError where no voice is heard."""
    pack, voice = load_pack(PACK), EspeakNg()
    if (missing := voice.missing()) is not None:
        raise DataError(missing)
    runtime, model = choose_runtime("auto", pack, 1, training=False).runtime, pack.manifest.plugin
    recognise, settings = recogniser(runtime, model, start_weights(pack, model)), detect_settings(DetectTable(), pack)
    vote = load_voter(pack, partial(vote_runtime, runtime, 1), settings.vote)
    made: list[Utterance] = []
    for number in range(4 * count):
        text, word = COMMANDS[len(made) % len(COMMANDS)], settings.wake[number % len(settings.wake)]
        spoken = _utterance(_take(voice, word, number), _take(voice, text, 1000 + number), gap)
        detector = Detector(frontend_of(runtime), pack.labels, recognise, settings, vote=vote)
        quiet = np.random.default_rng(number).normal(0, HISS, 3 * RATE).astype(np.int16)
        sound = np.concatenate((quiet, spoken.samples, quiet[:RATE]))
        found = [
            each for at in range(0, len(sound), 800) for each in detector.listen(Block(sound[at : at + 800], at, 0.0))
        ]
        if sum(isinstance(each, Detection) and each.kind == "wake" for each in found) == 1:
            made.append(spoken)
        if len(made) == count:
            return made
    raise DataError(f"Of {4 * count} wake words only {len(made)} were heard.")


def _take(voice: EspeakNg, text: str, seed: int) -> NDArray[np.float32]:
    """From its first sound to its last."""
    said = voice.speak(text, "en", seed)
    loud = np.flatnonzero(np.abs(said) > 0.02 * np.abs(said).max())
    return said[loud[0] : loud[-1] + 1] * (LOUD / np.abs(said).max())


def _utterance(word: NDArray[np.float32], command: NDArray[np.float32], gap: float) -> Utterance:
    pause = np.zeros(round(gap * RATE), np.float32)
    samples = np.concatenate((word, pause, command)) * 32767
    return Utterance(samples.astype(np.int16), len(word), len(word) + len(pause))


def measure(count: int, gap: float) -> Figures:
    """All of it."""
    spoken = utterances(count, gap)
    with tempfile.TemporaryDirectory() as folder:
        single = asyncio.run(_one_device(Path(folder), spoken))
        words, one_run = asyncio.run(_two_devices(Path(folder), spoken))
    delays, begins = [each[0] for each in single], [each[1:] for each in single]
    return Figures(
        commands=len(single),
        gap_seconds=gap,
        median_ms=round(1000 * median(delays), 1),
        most_ms=round(1000 * max(delays), 1),
        missed=sum(begin > each.command for begin, each in begins),
        before_ms=round(median(1000 * (each.word_end - begin) / RATE for begin, each in begins), 1),
        words=words,
        one_run=one_run,
    )


async def _one_device(folder: Path, spoken: list[Utterance]) -> list[tuple[float, int, Utterance]]:
    """By command: seconds from the decision to the first sound, the sample of the utterance with which it begins."""
    noise, pieces, starts, at = np.random.default_rng(0), [], [], 0
    for each in spoken:
        quiet = noise.normal(0, HISS, round(PAUSE_SECONDS * RATE))
        starts.append(at + len(quiet))
        pieces += [quiet, each.samples + noise.normal(0, HISS, len(each.samples))]
        at += len(quiet) + len(each.samples)
    recording = np.concatenate([*pieces, noise.normal(0, HISS, 5 * RATE)]).astype("<i2")
    soundfile.write(folder / "room.wav", recording, RATE)
    agent, port = _agent(folder, "hall-1", f"file:{folder}/room.wav?loop=1")
    found, raw = [], recording.tobytes()
    try:
        await _connects(port)
        async with home(port) as seen:
            for _ in spoken:
                decided, arrived, samples = await _one_run(agent, seen)
                begin = raw.find(samples.tobytes()) // 2
                which = max(number for number, start in enumerate(starts) if start <= begin + RATE // 2)
                found.append((arrived - decided, begin - starts[which], spoken[which]))
    finally:
        _end(agent)
    return found


async def _one_run(agent: Command, seen: Home) -> tuple[float, float, NDArray[np.int16]]:
    """When the next wake word was decided on, when its first sound came, and the first half second of that."""
    seen.audio.clear()
    number = len(seen.starts)
    await until(lambda: len(seen.audio) > 0, 120)
    arrived = time.time()
    await until(lambda: len(seen.audio) >= 2 * SECONDS_SENT * RATE, 20)
    for kind in ("RUN_START", "STT_VAD_END", "RUN_END"):
        seen.say(kind)
    wakes = [line for line in agent.lines if line.get("type") == "wake"]
    assert len(seen.starts) == number + 1, "two runs at a time"
    await asyncio.sleep(0.3)
    return wakes[-1]["at"], arrived, seen.samples[: RATE // 2]


async def _two_devices(folder: Path, spoken: list[Utterance]) -> tuple[int, int]:
    """Words, and those for which one device alone began a run."""
    process, address = await home_broker(folder)
    rooms = [VirtualRoom(folder / f"microphone-{number}") for number in range(2)]
    for room in rooms:
        room.open()
    agents = [
        _agent(folder, f"room-{number}", room.source, ONE_ANSWER.format(port=address.port))
        for number, room in enumerate(rooms)
    ]
    states = [ControlClient(folder / f"room-{number}") for number in range(2)]
    both = single = 0
    try:
        for _, port in agents:
            await _connects(port)
        async with home(agents[0][1]) as near, home(agents[1][1]) as far:
            for each in [*spoken] * TRIES:
                before = _wakes(states), len(near.starts) + len(far.starts)
                await asyncio.gather(
                    asyncio.to_thread(rooms[0].say, each.samples, pause=PAUSE_SECONDS),
                    asyncio.to_thread(rooms[1].say, (each.samples * FAR).astype(np.int16), pause=PAUSE_SECONDS),
                )
                for seen in (near, far):
                    for kind in ("RUN_START", "RUN_END"):
                        seen.say(kind)
                if all(now > was for now, was in zip(_wakes(states), before[0], strict=True)):
                    both += 1
                    single += len(near.starts) + len(far.starts) - before[1] == 1
                if both == len(spoken):
                    break
    finally:
        for agent, _ in agents:
            _end(agent)
        for room in rooms:
            room.close()
        await process.stop()
    return both, single


def _wakes(states: list[ControlClient]) -> list[int]:
    """Wake words that each device has heard, whether it answered or not."""
    return [state.get("/v1/status")["listening"]["wakes"] for state in states]


def _agent(folder: Path, name: str, source: str, more: str = "") -> tuple[Command, int]:
    port, config = free_port(), folder / f"{name}.toml"
    config.write_text(SETTINGS.format(pack=PACK, port=port) + more)
    return Command(*run(config=config, device=name, state=folder / name, source=source)), port


def _end(agent: Command) -> None:
    agent.process.terminate()
    agent.end()


async def _connects(port: int) -> None:
    def connects() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    await until(connects, 90)


def report(found: Figures) -> str:
    """A line for each figure."""
    gap = f"said {found.gap_seconds:g} s after the wake word"
    return (
        f"decision to first sound at the assistant: median {found.median_ms:.0f} ms, longest {found.most_ms:.0f} ms\n"
        f"commands whose beginning was not sent: {found.missed} of {found.commands}, {gap}\n"
        f"sound sent from before the end of the wake word: median {found.before_ms:.0f} ms\n"
        f"two devices, one run: {found.one_run} of {found.words} words"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=30)
    parser.add_argument("--gap", type=float, default=0.05, help="seconds between wake word and command")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sys.exit(answer(lambda: measure(given.commands, given.gap), report, as_json=given.json))
