"""A device that lives with its owner: what `auricle edge run` puts together, fed from a scene instead of a microphone.

Nobody is given a label but through the device: its owner enrols every word once and then confirms what was heard
rightly, denies what was not and says "missed", or, of only some of these, one in so many.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.scenes import Scene, Spoken
from auricle.hearing.sounds import Take, as_speech, pcm
from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.first_weights import choose_weights, first_weights
from auricle.packs.pack import Pack
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from auricle_edge.clips import ClipStore
from auricle_edge.clips.choice import ClipSettings
from auricle_edge.evaluate.listeners import thresholds_of
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.labels import Enrolment, Labeller, LabelSettings
from auricle_edge.labels.candidates import reconsider
from auricle_edge.listening.detect import Detector, DetectTable, detect_settings
from auricle_edge.listening.sound import Block, Detection
from auricle_edge.service.hearing_model import HearingModel
from auricle_edge.training.judge.sound import Judging
from auricle_edge.training.own_model import own_model
from auricle_learning.runtimes import Runtime
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import DataSource
from auricle_learning.training.train import RoundResult, Trainer
from bench.listening_owners import Owner, takes_of
from bench.listening_sound import Days

FLEET = "listening"
ALWAYS = DetectTable(wake=())
"""`[detect]` of all devices: every word counts always, as nobody in `gsc` says a wake word; else what the pack says."""
BLOCK = 1_600
ANSWERED = 1.0
"""Seconds after a word's end in which its detection is what the owner meant; then they say "missed"."""
COMPRESSION = 20.0
"""Of a day so much less is played: what the device does by the clock (ambient negatives) comes as often sooner."""
NIGHT = 60 * SAMPLE_RATE
"""Samples lost between two days."""


@dataclass(frozen=True)
class Lived:
    """What a device heard on a day, at the thresholds that it listens with."""

    words: int = 0
    """That its owner said."""
    hits: int = 0
    false_accepts: int = 0
    """In sound in which nobody meant it."""
    hours: float = 0.0
    """Of that."""


@dataclass(frozen=True, eq=False)
class State:
    """What a device listens with at some time."""

    plugin: Flat
    """(P,)"""
    own: Flat | None
    """(Q,) of the model that never leaves it; None while that was never trained."""
    chosen: str
    """What judges: `plugin`, `personal`, `ensemble` (the mean of both) or `cascade` (a second stage)."""
    thresholds: Mapping[str, float]
    """By keyword: the pack's, as far as they follow what judges."""


class Device:
    """What `auricle edge run` puts together, fed from a scene.

    Parameters
    ----------
    name, folder, pack, runtime, seed
        As of the service.
    answers
        Share of what the owner could answer that they do answer: detections, and words that were missed.
    judging
        What its rounds are judged by on streams; None: on held-out clips alone.
    local
        Name of its own model; None: the pack's larger one.
    carried
        Weight of the pack's negatives in what it trains on.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        pack: Pack,
        runtime: Runtime,
        seed: int,
        answers: float = 1.0,
        judging: Judging | None = None,
        local: str | None = None,
        carried: float = 0.5,
    ) -> None:
        self._carried = carried
        self.name, self._folder, self._pack, self._runtime = name, folder, pack, runtime
        self._seed, self._share, self._judging = seed, answers, judging
        frontend, self._settings = LogMel(pack.manifest.task), LabelSettings()
        self._draw, self._mood = random.Random(seed), random.Random(seed + 1)
        folder.mkdir(mode=0o700, parents=True)
        self.store = ClipStore(folder / "clips", ClipSettings(), frontend, draw=self._draw.random)
        self._own = own_model(pack, local)
        self._first = choose_weights(None, pack, self._own, seed)
        plugin = first_weights(pack, pack.manifest.plugin, seed)
        self._personal, self._plugin = self._first, plugin
        detect = detect_settings(ALWAYS, pack)
        self.hearing = HearingModel(folder, runtime, self._own, self._first, plugin, ALWAYS)
        chosen = self.hearing.choose(self.store.device_data().held_out).candidate
        self.detector = Detector(frontend, pack.labels, chosen.recognise, detect, model=chosen.name, clock=lambda: 0.0)
        self._now = 0.0
        self.labeller = Labeller(
            self.store, self.detector, self._settings, chosen.recognise, clock=lambda: self._now, rng=self._draw
        )
        self.detector.watch_near(self._settings.near_share, self.labeller.almost)
        self._next = 0
        self.days: list[Lived] = []
        self.answers: Counter[str] = Counter()

    @property
    def state(self) -> State:
        """What it listens with now."""
        hearing = self.hearing
        thresholds = thresholds_of(self._pack.labels, hearing.detect)
        return State(self._plugin, self._personal, hearing.now.candidate.name, thresholds)

    def agent(self, address: BrokerAddress, coordinator: bytes, workers: Executor) -> Agent:
        """Its part in the fleet."""
        learn = LearnSettings(judged_share=0.0 if self._judging is None else 1.0, carried=self._carried)
        trainer = Trainer(self._runtime, self._own, self.store.device_data(), self._seed, self._first, learn)
        source = DataSource(self.store.device_data, lambda: self.store.generation)
        settings = AgentSettings(self.name, FLEET, address, self._folder, coordinator)
        return Agent(settings, trainer, workers, source=source, learnt=self._learnt, judging=self._judging)

    def _learnt(self, plugin: Flat, result: RoundResult) -> None:
        self._plugin, self._personal = plugin, result.local.weights
        choice = self.hearing.learnt(plugin, result.local.weights, self.store.device_data().held_out)
        self.detector.replace(choice.candidate.recognise, choice.candidate.name, self.hearing.detect.thresholds)
        self.labeller.recognise = choice.candidate.recognise
        reconsider(self.store, choice.candidate.recognise, self._settings)

    def live(self, owner: Owner, days: Days, day: int, rng: np.random.Generator) -> Lived:
        """Hear a day, the first with its enrolment before, and get the owner's answers."""
        if day == 0:
            self.enrol(takes_of(owner.enrolled), rng)
        said = days.said(owner, day, rng)
        meant = self.hear(said) if said is not None else Lived()
        around = self.hear(days.not_meant(rng))
        self.days.append(replace(around, words=meant.words, hits=meant.hits))
        return self.days[-1]

    def enrol(self, takes: Sequence[Take], rng: np.random.Generator) -> None:
        """One take of each word in a quiet room; a word whose take is refused three times is given up.

        The owner is sure of the word: what the model doubts is kept (`auricle edge enroll --keep`).
        """
        recognise = self.hearing.now.candidate.recognise
        for take in takes:
            waiting: list[NDArray[np.int16]] = []
            enrolment = Enrolment(take.word, 1, self.store, self._settings, recognise, keep=True)
            with contextlib.suppress(DataError):
                for step in enrolment.run(_room(waiting, rng)):
                    if step.step == "say":
                        waiting.append(pcm(np.pad(as_speech(take.sound, rng), SAMPLE_RATE)))
                    self.answers["enrolled"] += step.step == "kept"

    def hear(self, scene: Scene) -> Lived:
        """Hear a scene and get the owner's answers to it."""
        self._next += NIGHT
        begin, waiting, meant = self._next, list(scene.words), set[Spoken]()
        detections = hits = 0
        for at in range(0, len(scene.samples), BLOCK):
            samples = scene.samples[at : at + BLOCK]
            self._now += COMPRESSION * len(samples) / SAMPLE_RATE
            block = Block(samples, begin + at, self._now)
            self._next = block.end
            for detection in self.detector.feed(block):
                detections += 1
                self.labeller.detected(detection)
                word = _meant(at + len(block.samples), scene.words, meant)
                hits += word is not None and word.word == detection.word
                self._answer(detection, word)
            while waiting and waiting[0].end + ANSWERED * SAMPLE_RATE < at:
                word = waiting.pop(0)
                if word not in meant:
                    self._missed(word)
            self.labeller.tick()
        if scene.words:
            return Lived(words=len(scene.words), hits=hits)
        return Lived(false_accepts=detections, hours=scene.hours)

    def _answers_now(self) -> bool:
        return self._share >= 1 or self._mood.random() < self._share

    def _answer(self, detection: Detection, word: Spoken | None) -> None:
        if not self._answers_now():
            self.answers["unanswered"] += 1
        elif word is None:
            self.answers[self.labeller.deny(detection.id).source] += 1
        elif word.word == detection.word:
            self.answers[self.labeller.confirm(detection.id).source] += 1
        else:
            self.answers[self.labeller.deny(detection.id, word.word).source] += 1

    def _missed(self, word: Spoken) -> None:
        if not self._answers_now():
            self.answers["missed in silence"] += 1
            return
        with contextlib.suppress(DataError):
            self.answers[self.labeller.missed(word.word).source] += 1


def _meant(now: int, words: Sequence[Spoken], meant: set[Spoken]) -> Spoken | None:
    """The word that a detection at this sample is for, from now on one of `meant`; None: nobody meant the device."""
    end = ANSWERED * SAMPLE_RATE
    word = next((w for w in words if w.start <= now <= w.end + end and w not in meant), None)
    if word is not None:
        meant.add(word)
    return word


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
