"""Single recordings, as a data set's accuracy is stated: keywords, other words and silence right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.intervals import Interval, share_interval
from auricle.hearing.sounds import Sound, fingerprint
from auricle.packs.manifest import SILENCE, UNKNOWN
from auricle.speech.features import LogMel
from auricle_edge.evaluate.sources import Sources
from auricle_edge.listening.detect.recognisers import Recognise
from auricle_edge.listening.detect.vote import Voter

Best = NDArray[np.int64]
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
    sources: Sources, labels: tuple[str, ...], frontend: LogMel, recognise: Recognise, vote: Voter | None = None
) -> tuple[ClipAccuracy, frozenset[str]]:
    """Judge every recording by itself, and say by their fingerprints which of the keywords are right.

    Parameters
    ----------
    sources
        Keywords and other words, as long as the pack's window; noise, which is cut into windows.
    labels
        L of the model.
    vote
        What has a share in the posteriors; None: nothing.
    """
    best_of = partial(_best, frontend=frontend, recognise=recognise, vote=vote)
    length = frontend.task.clip_samples
    best = best_of([take.sound for take in sources.keywords])
    said = np.array([labels.index(take.word) for take in sources.keywords], np.int64)
    silence = [sound[i : i + length] for sound in sources.noise for i in range(0, len(sound) - length + 1, length)]
    right = frozenset(fingerprint(take.sound) for take, ok in zip(sources.keywords, best == said, strict=True) if ok)
    accuracy = ClipAccuracy(
        Share(int((best == said).sum()), len(said)),
        _special(UNKNOWN, [take.sound for take in sources.words], labels, best_of),
        _special(SILENCE, silence, labels, best_of),
        len(labels),
    )
    return accuracy, right


def _special(
    label: str, sounds: list[Sound], labels: tuple[str, ...], best_of: Callable[[list[Sound]], Best]
) -> Share | None:
    if label not in labels:
        return None
    best = best_of(sounds)
    return Share(int((best == labels.index(label)).sum()), len(sounds))


def _best(sounds: list[Sound], frontend: LogMel, recognise: Recognise, vote: Voter | None) -> Best:
    """Which label has the largest posterior of each sound (N,)."""
    found = []
    for at in range(0, len(sounds), _AT_ONCE):
        clips = np.stack(sounds[at : at + _AT_ONCE])
        said = recognise(frontend(clips))
        found.append((said if vote is None else vote.join(said, clips)).argmax(axis=1))
    return np.concatenate(found) if found else np.zeros(0, np.int64)
