"""Streams of speakers that are not trained on: what a checkpoint is chosen by, and a finished model judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.curve import Counts, curve_of
from auricle.hearing.rule import Rule, refractory_of
from auricle.hearing.scenes import (
    Scene,
    keywords_after_words,
    keywords_in_noise,
    keywords_over_speech,
    noise_alone,
    run_together,
    without_keywords,
)
from auricle.hearing.word_thresholds import thresholds_for
from auricle.speech.features import Energies, LogMel, SoundVectors, stream_energies
from auricle_export.pretrain.corpus import Heard, Progress

Features = NDArray[np.float32]
Recognise = Callable[[Features], NDArray[np.float32]]
"""Posteriors (N, L) of log-mels (N, T, mels)."""

RATE_PER_HOUR = 5.0
"""False accepts an hour at which a checkpoint's hits are compared."""
_WINDOWS = 512


@dataclass(frozen=True, eq=False)
class Streams:
    """Scenes and their mel energies (F, mels), frame by frame as the detector sees them."""

    scenes: tuple[Scene, ...]
    energies: tuple[Energies, ...]
    labels: tuple[str, ...]
    frontend: LogMel
    rule: Rule
    progress: Callable[[int, int], None] = lambda _done, _all: None
    """Told how many of the scenes were heard, of how many."""
    heard: dict[int, SoundVectors] = field(default_factory=dict)
    """What the front-end's network made of scenes, by the identity of their energies."""

    def posteriors(self, recognise: Recognise) -> list[NDArray[np.float32]]:
        """Posteriors (hops, L) of every scene, every window judged; hop h ends where the detector's does."""
        task = self.frontend.task
        step = round(self.rule.hop * task.sample_rate) // task.frontend.hop
        found: list[NDArray[np.float32]] = []
        for energies in self.energies:
            hops = len(energies) // step
            rows = np.zeros((hops, len(self.labels)), np.float32)
            first = -(-task.frames // step) - 1
            begins = np.arange(first + 1, hops + 1) * step - task.frames
            rows[first : first + len(begins)] = self.posteriors_at(len(found), begins, recognise)
            found.append(rows)
            self.progress(len(found), len(self.energies))
        return found

    def posteriors_at(self, scene: int, begins: NDArray[np.int64], recognise: Recognise) -> NDArray[np.float32]:
        """Posteriors (N, L) of windows of one scene that begin with these frames (N,), always the same of a scene."""
        rows = np.zeros((len(begins), len(self.labels)), np.float32)
        windows = self._windows_of(self.energies[scene], begins)
        for start in range(0, len(begins), _WINDOWS):
            some = begins[start : start + _WINDOWS]
            rows[start : start + len(some)] = recognise(windows(some))
        return rows

    @property
    def longest(self) -> int:
        """Frames of the window that is listened to; of several the longest."""
        return self.frontend.task.frames

    def over(self, sounds: Sequence[NDArray[np.float32]], silence: tuple[int, int]) -> Streams:
        """The same ears over other sounds (S,), each with so many frames of silence before and after it."""
        made = tuple(np.pad(stream_energies(self.frontend.task, sound), (silence, (0, 0))) for sound in sounds)
        return replace(self, scenes=(), energies=made, progress=lambda _done, _all: None, heard={})

    def _windows_of(
        self, energies: Energies, begins: NDArray[np.int64]
    ) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
        """Windows of a scene by their first frames; what a network makes of it is kept, for it hears it often."""
        if self.frontend.task.frontend.network is UNSET:
            return lambda some: self.frontend.windows(energies, some)
        if id(energies) not in self.heard:
            self.heard[id(energies)] = self.frontend.vectors_of(energies, begins)
        return self.heard[id(energies)].windows

    def counts(self, recognise: Recognise) -> Counts:
        """What a model hears at every threshold."""
        return self.count(self.posteriors(recognise))

    def count(self, posteriors: Sequence[NDArray[np.float32]], labels: Sequence[str] | None = None) -> Counts:
        """The same of posteriors (hops, L) of each scene; of some labels only where they are named."""
        return curve_of(posteriors, self.scenes, labels or self.labels, self.rule)


def make_streams(
    heard: Heard,
    labels: Sequence[str],
    frontend: LogMel,
    seed: int,
    *,
    passes: int = 2,
    negatives: int = 4,
    seconds: float = 300,
    rule: Rule | None = None,
    what: str = "",
    progress: Progress = lambda *_: None,
) -> Streams:
    """Compose streams from the recordings of one part.

    Keywords in noise, over speech and after other words, `passes` times; then, `negatives` times in other noise each
    time, running speech, other words one by one and, for so many `seconds`, run together, noise, and words of other
    languages where there are some. `progress` is told how this goes on, and later how a model hears them, in words that
    end with `what`.

    Raises
    ------
    DataError
        The part lacks keywords, other words, running speech or noise.
    """
    for what, sounds in (
        ("keyword", heard.keywords),
        ("other word", heard.others),
        ("running speech", heard.running),
        ("noise", heard.noise),
    ):
        if not sounds:
            raise DataError(f"There is no {what} of speakers that are not trained on: add recordings of more speakers.")
    rng = np.random.default_rng([seed, 11])
    others = [take.sound for take in heard.others]
    scenes: list[Scene] = []
    every = 3 * passes + (5 if heard.languages else 4) * negatives
    for _ in range(passes):
        scenes += [
            keywords_in_noise(heard.keywords, heard.noise, rng),
            keywords_over_speech(heard.keywords, heard.running, rng),
            keywords_after_words(heard.keywords, heard.others, heard.noise, rng),
        ]
        progress(f"composing {what}", len(scenes), every)
    for _ in range(negatives):
        scenes += [
            without_keywords("speech", heard.running, heard.noise, rng),
            without_keywords("words", others, heard.noise, rng),
            run_together(heard.others, heard.noise, rng, seconds=seconds),
            noise_alone(heard.noise, rng, seconds=0.8 * seconds),
        ]
        if heard.languages:
            scenes.append(without_keywords("languages", [take.sound for take in heard.languages], heard.noise, rng))
        progress(f"composing {what}", len(scenes), every)
    return replace(streams_of(scenes, labels, frontend, rule), progress=partial(progress, f"hearing {what}"))


def streams_of(scenes: Sequence[Scene], labels: Sequence[str], frontend: LogMel, rule: Rule | None = None) -> Streams:
    """Scenes with their mel energies."""
    energies = tuple(stream_energies(frontend.task, scene.samples) for scene in scenes)
    usual = Rule(hop=frontend.task.usual_hop, refractory=refractory_of(frontend.task.seconds))
    return Streams(tuple(scenes), energies, tuple(labels), frontend, rule or usual)


def hits_at(counts: Counts, rate: float = RATE_PER_HOUR) -> float:
    """Share of keywords heard at so many false accepts an hour, the mean over the words, each at its own threshold.

    With one threshold for all, a single noise that sounds like a single word would decide between checkpoints. Where
    there is too little sound to show the rate, one false accept is allowed.
    """
    shown = max(rate, 1.001 / counts.all_hours)
    return float(np.mean(list(thresholds_for(counts, shown).hits.values())))
