"""The sound that a device's models are judged on: the pack's negatives, its own, and its held-out keywords."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from auricle.packs.pack import Pack
from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from auricle_edge.listening.detect.settings import DetectSettings
from auricle_edge.training.judge.clips import NEGATIVES
from auricle_edge.training.judge.comparison import Counts, Heard
from auricle_edge.training.judge.streams import Streams, first_part, in_quiet, join
from auricle_learning.runtimes import Runtime, frontend_of, recogniser
from auricle_learning.training.carried import LEAST_WINDOWS, Sound, judged_part
from auricle_learning.training.speech_data import Clips

REMEMBERED_MODELS = 8
"""Models whose answers are kept, so that a state that is compared again is not played to again."""


class Negatives:
    """Streams without keywords, and what the last models made of them; several devices may share them.

    Parameters
    ----------
    streams
        The sound.
    """

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self._answers: OrderedDict[str, Counts] = OrderedDict()
        self._lock = threading.Lock()

    def accepts(self, runtime: Runtime, model: str, weights: Flat) -> Counts:
        """False accepts of a model in each second (S,)."""
        key = hashlib.sha256(model.encode() + b"\0" + np.ascontiguousarray(weights).tobytes()).hexdigest()
        with self._lock:
            known = self._answers.get(key)
        if known is None:
            known = self._play(runtime, model, weights)
        with self._lock:
            self._answers[key] = known
            self._answers.move_to_end(key)
            while len(self._answers) > REMEMBERED_MODELS:
                self._answers.popitem(last=False)
        return known

    def _play(self, runtime: Runtime, model: str, weights: Flat) -> Counts:
        parts = []
        heard = self.streams.heard(recogniser(runtime, model, weights))
        for length, found in zip(self.streams.seconds(), heard, strict=True):
            seconds = [self.streams.second_of(hop) for hop, _ in found]
            parts.append(np.bincount(seconds, minlength=length)[:length].astype(np.uint8))
        return np.concatenate([np.zeros(0, np.uint8), *parts])


@dataclass(frozen=True, eq=False)
class Judging:
    """What a device's judge listens by, besides the device's own clips."""

    detect: DetectSettings = field(default_factory=DetectSettings)
    """The detector's settings, over what the pack says (`detect_settings`): its rule, wake words and gate."""
    carried: Negatives | None = None
    """Negatives that all devices share; None: those of the pack, where it carries some."""


def load_negatives(
    pack: Pack,
    detect: DetectSettings,
    minutes: float,
    stretches: Sequence[Sound] | None = None,
    frontend: LogMel | None = None,
) -> Negatives:
    """Take so many minutes of the negatives to judge by, of each its first part.

    Parameters
    ----------
    stretches
        The sound (frames, mels); without, of the pack's negatives the half that no round trains on.
    frontend
        The pack's; where it has a network it has to be one that can run that.
    """
    task = pack.manifest.task
    found = judged_part(pack.stretches, task.frames) if stretches is None else stretches
    frames = round(minutes * 60 * task.sample_rate / task.frontend.hop)
    part = first_part(found, frames, LEAST_WINDOWS * task.frames)
    return Negatives(Streams(frontend or LogMel(task), pack.labels, detect, part))


class JudgedSound:
    """Everything that a device judges by, as it is now.

    Parameters
    ----------
    runtime
        Runs the models.
    detect
        The detector's rule.
    carried
        The fixed negatives.
    held_out
        The device's clips that are never trained on: those in `NEGATIVES` are joined to a stream, the others are
        keywords, each played between a second of its own quiet; a command where there are wake words is one that
        comes just after a wake word.
    """

    def __init__(self, runtime: Runtime, detect: DetectSettings, carried: Negatives, held_out: Clips) -> None:
        labels = runtime.pack.labels
        frontend = frontend_of(runtime)
        known = (held_out.targets >= 0) & (held_out.targets < len(labels))
        silent = np.array([name in NEGATIVES for name in labels])[np.where(known, held_out.targets, 0)]
        own = join(held_out.energies[known & silent])
        words = held_out.energies[known & ~silent]
        self._runtime, self.carried = runtime, carried
        self._words = held_out.targets[known & ~silent]
        self._awake = [bool(detect.wake) and labels[word] not in detect.wake for word in self._words]
        self._own = Negatives(Streams(frontend, labels, detect, own, gated=False))
        quiet = in_quiet(words, frontend.task.frames)
        self._spoken = Streams(frontend, labels, detect, quiet, gated=False)
        self.hours = carried.streams.hours + self._own.streams.hours
        parts = (carried.streams.digest, self._own.streams.digest, self._spoken.digest)
        self.digest = hashlib.sha256("".join(parts).encode() + self._words.tobytes()).hexdigest()

    def heard(self, model: str, weights: Flat) -> Heard:
        """Play everything to a model."""
        accepts = [part.accepts(self._runtime, model, weights) for part in (self.carried, self._own)]
        return Heard(np.concatenate(accepts), self._hits(model, weights), self.hours)

    def _hits(self, model: str, weights: Flat) -> Counts:
        heard = self._spoken.heard(recogniser(self._runtime, model, weights), self._awake)
        said = [int(any(label == word for _, label in found)) for word, found in zip(self._words, heard, strict=True)]
        return np.array(said, np.uint8)
