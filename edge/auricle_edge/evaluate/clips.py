"""Single recordings, as a data set's accuracy is stated: keywords, other words and silence right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from auricle.hearing.intervals import Interval, share_interval
from auricle.hearing.sounds import Sound, fingerprint
from auricle.packs.manifest import SILENCE, UNKNOWN
from auricle.speech.features import LogMel
from auricle_edge.evaluate.sources import Sources
from auricle_edge.listening.detect.recognisers import Recognise

_AT_ONCE = 256


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    right: int
    of: int

    @property
    def share(self) -> float:
        """Nan of nothing."""
        return self.right / self.of if self.of else float("nan")

    @property
    def interval(self) -> Interval:
        """95 %."""
        return share_interval(self.right, self.of)


@dataclass(frozen=True)
class ClipAccuracy:
    """Whether the largest posterior of a recording alone is the right one."""

    words: Share
    unknown: Share | None
    """Every other word; None where the model has no label for them."""
    silence: Share | None
    classes: int

    @property
    def balanced(self) -> float:
        """All classes, where other words and silence count as much as a keyword on average (Warden 2018)."""
        extra = [part for part in (self.unknown, self.silence) if part is not None and part.of]
        keywords = self.classes - (self.unknown is not None) - (self.silence is not None)
        return (self.words.share * keywords + sum(part.share for part in extra)) / (keywords + len(extra))


def clip_accuracy(
    sources: Sources, labels: tuple[str, ...], frontend: LogMel, recognise: Recognise
) -> tuple[ClipAccuracy, frozenset[str]]:
    """Judge every recording by itself, and say by their fingerprints which of the keywords are right.

    Parameters
    ----------
    sources
        Keywords and other words, as long as the pack's window; noise, which is cut into windows.
    labels
        L of the model.
    """
    length = frontend.task.clip_samples
    best = _best([take.sound for take in sources.keywords], frontend, recognise)
    said = np.array([labels.index(take.word) for take in sources.keywords], np.int64)
    silence = [sound[i : i + length] for sound in sources.noise for i in range(0, len(sound) - length + 1, length)]
    right = frozenset(fingerprint(take.sound) for take, ok in zip(sources.keywords, best == said, strict=True) if ok)
    accuracy = ClipAccuracy(
        Share(int((best == said).sum()), len(said)),
        _special(UNKNOWN, [take.sound for take in sources.words], labels, frontend, recognise),
        _special(SILENCE, silence, labels, frontend, recognise),
        len(labels),
    )
    return accuracy, right


def _special(
    label: str, sounds: list[Sound], labels: tuple[str, ...], frontend: LogMel, recognise: Recognise
) -> Share | None:
    if label not in labels:
        return None
    best = _best(sounds, frontend, recognise)
    return Share(int((best == labels.index(label)).sum()), len(sounds))


def _best(sounds: list[Sound], frontend: LogMel, recognise: Recognise) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    found = [
        recognise(frontend(np.stack(sounds[i : i + _AT_ONCE]))).argmax(axis=1) for i in range(0, len(sounds), _AT_ONCE)
    ]
    return np.concatenate(found) if found else np.zeros(0, np.int64)
