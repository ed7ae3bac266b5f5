"""Devices that live with their owners, label what they hear, and train together: the listening bench's second side.

Each device is put together as `auricle edge run` does it, without a microphone: detector, labeller, clip store, choice
of the model, agent. A real coordinator runs the rounds over a real broker. Nobody is given a label but through the
device: its owner enrols every word once, confirms what was heard rightly, denies what was not, and says "missed".
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.listening_scene import RATE, Scene, Spoken, Surroundings, in_room, other_scene, words_scene
from numpy.typing import NDArray
from safetensors.numpy import save

from auricle.errors import DataError
from auricle.first_weights import first_weights
from auricle.mqtt import BrokerAddress
from auricle.pack import Pack
from auricle.speech.audio import ClipFile
from auricle.speech.features import LogMel
from auricle.tensors import Flat
from auricle_cloud.coordinator import NAME, Coordinator
from auricle_cloud.presets import get_preset
from auricle_cloud.run_settings import RoundDone, RunSettings
from auricle_edge.agent import Agent, AgentSettings
from auricle_edge.clips import ClipStore
from auricle_edge.clips.settings import ClipSettings
from auricle_edge.detect import Detector, DetectTable, detect_settings
from auricle_edge.hearing_model import HearingModel
from auricle_edge.judge.sound import Judging, carried_negatives
from auricle_edge.labels import Enrolment, Labeller, LabelSettings
from auricle_edge.labels.candidates import reconsider
from auricle_edge.learn_settings import LearnSettings
from auricle_edge.runtimes import Runtime, choose_runtime
from auricle_edge.sound import Block, Detection
from auricle_edge.speech_data import DataSource
from auricle_edge.train import RoundResult, Trainer
from auricle_fleet.broker import start_broker
from auricle_fleet.judging import refusals

FLEET, LOCAL = "listening", "crnn-base"
BLOCK = 1_600
ANSWERED = 1.0
"""Seconds after a word's end in which its detection is what the owner meant; then they say "missed"."""
PAUSES = (6.0, 8.0)
"""Seconds between two words of the owner: who missed one says so before the next."""
COMPRESSION = 20.0
"""Of a day so much less is played: what the device does by the clock (ambient negatives) comes as often sooner."""
NIGHT = 60 * RATE
"""Samples lost between two days."""


@dataclass(frozen=True)
class Owner:
    """A speaker, whose takes are split: those that the device hears, by day, and those that it is judged by."""

    name: str
    enrolled: tuple[ClipFile, ...]
    days: tuple[tuple[ClipFile, ...], ...]
    judged: tuple[ClipFile, ...]


def owner_of(name: str, clips: Sequence[ClipFile], days: int) -> Owner:
    """Of each word: one take to enrol, two fifths (at least one) to judge by, the others said on the days in turn."""
    enrolled, judged, said = [], [], [list[ClipFile]() for _ in range(days)]
    for word, count in sorted(Counter(clip.word for clip in clips).items()):
        takes = sorted((clip for clip in clips if clip.word == word), key=lambda clip: clip.path.name)
        cut = count - max(1, round(0.4 * count))
        judged += takes[cut:]
        enrolled += takes[: min(1, cut)]
        for i, take in enumerate(takes[1:cut]):
            said[i % days].append(take)
    return Owner(name, tuple(enrolled), tuple(tuple(day) for day in said), tuple(judged))


@dataclass(frozen=True)
class Heedless:
    """What a device accepted on a day in sound in which nobody meant it."""

    false_accepts: int
    hours: float

    @property
    def per_hour(self) -> float:
        """False accepts an hour."""
        return self.false_accepts / self.hours


class Device:
    """What `auricle edge run` puts together, fed from a scene.

    Parameters
    ----------
    name, folder, pack, runtime, seed
        As of the service.
    threshold
        Of detection.
    judging
        What its rounds are judged by on streams; None: on held-out clips alone.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        pack: Pack,
        runtime: Runtime,
        threshold: float,
        seed: int,
        judging: Judging | None = None,
    ) -> None:
        self.name, self.folder, self.pack, self._runtime = name, folder, pack, runtime
        self._frontend, self._seed = LogMel(pack.manifest.task), seed
        self._settings = LabelSettings()
        self._draw = random.Random(seed)
        folder.mkdir(mode=0o700, parents=True)
        self.store = ClipStore(folder / "clips", ClipSettings(), self._frontend, draw=self._draw.random)
        self._first, plugin = (first_weights(pack, model, seed) for model in (LOCAL, pack.manifest.plugin))
        self.weights: dict[str, Flat] = {"personal": self._first, "plugin": plugin}
        detect = detect_settings(DetectTable(threshold=threshold, wake=()), pack)
        self.hearing = HearingModel(folder, runtime, LOCAL, self._first, plugin, detect)
        chosen = self.hearing.choose(self.store.device_data().held_out).candidate
        self.detector = Detector(
            self._frontend, pack.labels, chosen.recognise, detect, model=chosen.name,
            clock=lambda: 0.0,
        )  # fmt: skip
        self._now = 0.0
        self.labeller = Labeller(
            self.store, self.detector, self._settings, chosen.recognise, clock=lambda: self._now, rng=self._draw
        )
        self._next = 0
        self._judging = judging
        self.days: list[Heedless] = []
        """By day, of the sound without keywords."""
        self.answers: Counter[str] = Counter()

    def agent(self, address: BrokerAddress, coordinator: bytes, workers: ThreadPoolExecutor) -> Agent:
        """Its part in the fleet."""
        data = self.store.device_data()
        learn = LearnSettings(judged_share=0.0 if self._judging is None else 1.0)
        trainer = Trainer(self._runtime, LOCAL, data, self._seed, self._first, learn)
        source = DataSource(self.store.device_data, lambda: self.store.generation)
        settings = AgentSettings(self.name, FLEET, address, self.folder, coordinator)
        return Agent(settings, trainer, workers, source=source, learnt=self._learnt, judging=self._judging)

    def _learnt(self, plugin: Flat, result: RoundResult) -> None:
        self.weights = {"personal": result.local.weights, "plugin": plugin}
        choice = self.hearing.learnt(plugin, result.local.weights, self.store.device_data().held_out)
        self.detector.replace(choice.candidate.recognise, choice.candidate.name)
        self.labeller.recognise = choice.candidate.recognise
        reconsider(self.store, choice.candidate.recognise, self._settings)

    def enrol(self, takes: Sequence[ClipFile], rng: np.random.Generator) -> None:
        """One take of each word in a quiet room; a word whose take is refused three times is given up."""
        for take in takes:
            waiting: list[NDArray[np.int16]] = []
            enrolment = Enrolment(take.word, 1, self.store, self._settings)
            with contextlib.suppress(DataError):
                for step in enrolment.run(_room(waiting, rng)):
                    if step.step == "say":
                        waiting.append(in_room(take, rng))
                    self.answers["enrolled"] += step.step == "kept"

    def live(self, scene: Scene) -> None:
        """Hear a scene and get its owner's answers."""
        self._next += NIGHT
        begin, waiting, heard, detections = self._next, list(scene.words), set[Spoken](), 0
        for at in range(0, len(scene.samples), BLOCK):
            block = Block(scene.samples[at : at + BLOCK], begin + at, 0.0)
            self._next, self._now = block.end, self._now + COMPRESSION * len(block.samples) / RATE
            for detection in self.detector.feed(block):
                detections += 1
                self.labeller.detected(detection)
                self._answer(detection, at + len(block.samples), scene.words, heard)
            while waiting and waiting[0].end + ANSWERED * RATE < at:
                word = waiting.pop(0)
                if word not in heard:
                    self._missed(word)
            self.labeller.tick()
        if not scene.words:
            self.days.append(Heedless(detections, len(scene.samples) / RATE / 3600))

    def _answer(self, detection: Detection, now: int, words: Sequence[Spoken], heard: set[Spoken]) -> None:
        meant = next((w for w in words if w.start <= now <= w.end + ANSWERED * RATE and w not in heard), None)
        if meant is None:
            said = self.labeller.deny(detection.id)
        elif meant.word == detection.word:
            said = self.labeller.confirm(detection.id)
        else:
            said = self.labeller.deny(detection.id, meant.word)
        if meant is not None:
            heard.add(meant)
        self.answers[said.source] += 1

    def _missed(self, word: Spoken) -> None:
        with contextlib.suppress(DataError):
            self.answers[self.labeller.missed(word.word).source] += 1

    def models(self, folder: Path) -> tuple[tuple[str, str], ...]:
        """The model it would listen with now, as architectures and files."""
        chosen = self.hearing.now.candidate.name
        kinds = {"personal": LOCAL, "plugin": self.pack.manifest.plugin}
        wanted = kinds if chosen == "ensemble" else {chosen: kinds[chosen]}
        files = []
        for name, architecture in wanted.items():
            table, path = self.pack.table(architecture), folder / f"{self.name}-{name}.safetensors"
            weights = self.weights[name]
            path.write_bytes(save({s.name: np.ascontiguousarray(table.tensor(weights, s.name)) for s in table.specs}))
            files.append((architecture, str(path)))
        return tuple(files)


def _room(waiting: list[NDArray[np.int16]], rng: np.random.Generator) -> Iterator[Block]:
    """Blocks of a quiet room, and of what is said in it."""
    start, left = 0, np.zeros(0, np.int16)
    while True:
        if not len(left) and waiting:
            left = waiting.pop(0)
        piece, left = left[:BLOCK], left[BLOCK:]
        sound = rng.normal(0, 8, BLOCK).astype(np.int16)
        sound[: len(piece)] += piece
        yield Block(sound, start, 0.0)
        start += BLOCK


@dataclass(frozen=True)
class Days:
    """What is played to the devices, and when they train."""

    surroundings: Surroundings
    snr: tuple[float, float]
    minutes: float
    """Of other words on each day, besides running speech and noise."""
    count: int
    rounds: int
    """In all."""

    def scene(self, owner: Owner, day: int, rng: np.random.Generator) -> Iterator[Scene]:
        """The owner's words of a day, then sound in which nobody means the device."""
        around = self.surroundings
        if owner.days[day]:
            yield words_scene(owner.days[day], around.noise, rng, self.snr, PAUSES)
        yield other_scene(around.words, around.speech, around.noise, rng, self.snr, self.minutes * 60)


async def train_together(
    pack: Pack,
    owners: Sequence[Owner],
    days: Days,
    threshold: float,
    folder: Path,
    say: Callable[[str], None],
    *,
    streams: bool,
) -> list[Device]:
    """Let every owner live with a device, and the devices train together; returns the devices.

    Parameters
    ----------
    pack, threshold
        Of the devices.
    folder
        Where they and the coordinator keep what they keep.
    say
        Told after each day and the last round.
    streams
        Whether rounds are judged on streams too: on the pack's negatives and the devices' own.
    """
    runtime = choose_runtime("auto", pack).runtime
    detect = detect_settings(DetectTable(threshold=threshold, wake=()), pack)
    judging = Judging(detect, carried_negatives(pack, detect, LearnSettings().judged_minutes)) if streams else None
    devices = [
        Device(f"device-{i}", folder / f"device-{i}", pack, runtime, threshold, i, judging) for i in range(len(owners))
    ]
    refused = Counter[str]()
    draws = [np.random.default_rng([7, i]) for i in range(len(owners))]
    ends = {days.rounds * day // days.count: day for day in range(1, days.count)}

    def a_day(day: int, i: int) -> None:
        if day == 0:
            devices[i].enrol(owners[i].enrolled, draws[i])
        for scene in days.scene(owners[i], day, draws[i]):
            devices[i].live(scene)
        kept = Counter(f"{c.record.source}:{'word' if (c.record.word or '_')[0] != '_' else c.record.word}"
                       for c in devices[i].store.list())  # fmt: skip
        say(f"day {day + 1}, {owners[i].name}: {dict(devices[i].answers)}; kept {dict(kept)}")
        heedless = devices[i].days[-1]
        say(f"day {day + 1}, {owners[i].name}: {heedless.false_accepts} false accepts, {heedless.per_hour:.0f}/h")

    async def everybody(day: int) -> None:
        await asyncio.gather(*(asyncio.to_thread(a_day, day, i) for i in range(len(owners))))

    async def watch(done: RoundDone) -> None:
        refused.update(refusals(done.report.get("failed", {})))
        if done.number in ends:
            await everybody(ends[done.number])
        if done.number in ends or done.number == done.rounds:
            said = ", ".join(d.hearing.now.candidate.name for d in devices)
            say(f"round {done.number}: {done.counted} of {done.invited} counted in {done.seconds:.1f} s; {said}")
            say(f"rounds refused so far: {dict(sorted(refused.items()))}")

    await everybody(0)
    users = {name: secrets.token_urlsafe(16) for name in (NAME, *(d.name for d in devices))}
    async with contextlib.AsyncExitStack() as stack:
        broker = await stack.enter_async_context(await start_broker(folder / "broker", users, fleet=FLEET, port=0))
        workers = stack.enter_context(ThreadPoolExecutor(2, "train"))
        plugin = first_weights(pack, pack.manifest.plugin, 0)
        run = RunSettings(
            fleet=FLEET, broker=broker.address(NAME), folder=folder / "coordinator", rounds=days.rounds,
            preset=get_preset("practical"), devices=len(devices), start=plugin,
        )  # fmt: skip
        coordinator = Coordinator(run, pack, watch)
        key = coordinator.identity.public
        tasks = [asyncio.create_task(d.agent(broker.address(d.name), key, workers).run()) for d in devices]
        try:
            await coordinator.run()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return devices
