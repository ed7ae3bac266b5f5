"""Which recordings false accepts came from: scenes draw the same ones again and again, and one bad one is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.intervals import Interval, rate_interval, share_interval
from auricle.hearing.utterances import Piece, Scene, Stretch
from auricle.speech.audio import SAMPLE_RATE

JUDGED_SECONDS = 1.0
"""Seconds before a decision that it is taken to come from."""
_AT_ONCE = 512
"""Decisions that are traced together: of a scene with thousands of words a few megabytes."""


@dataclass(frozen=True)
class Recordings:
    """Different recordings without keywords, each counted once."""

    false_accepts: Mapping[str, int]
    """By recording, of those that have any; the worst first."""
    heard: int
    """Different recordings that were heard."""
    hours: float
    """What the sound would last if each had been heard once, with as long pauses between them."""

    @property
    def bad(self) -> int:
        """How many have a false accept."""
        return len(self.false_accepts)

    @property
    def share(self) -> Interval:
        """95 % of the share of them that have one."""
        return share_interval(self.bad, self.heard)

    @property
    def rate(self) -> float:
        """Recordings with a false accept an hour, each heard once; nan of no time."""
        return self.bad / self.hours if self.hours else float("nan")

    @property
    def interval(self) -> Interval:
        """95 % of that rate."""
        return rate_interval(self.bad, self.hours)

    def named(self, names: Mapping[str, str]) -> Recordings:
        """The same with names instead of fingerprints; what has none keeps its own."""
        return replace(self, false_accepts={names.get(who, who): n for who, n in self.false_accepts.items()})


@dataclass(frozen=True, eq=False)
class Origins:
    """False accepts at T thresholds by the recordings that they came from, collected scene by scene."""

    accepts: dict[str, dict[str, NDArray[np.int64]]] = field(default_factory=dict)
    """(T,) by kind of stretch and by recording, of those that have any."""
    heard: dict[str, dict[str, float]] = field(default_factory=dict)
    """Hours of each recording where it was heard longest, by kind."""
    played: dict[str, float] = field(default_factory=dict)
    """Hours of recordings by kind, each as often as it was heard."""
    hours: dict[str, float] = field(default_factory=dict)
    """Of the stretches, by kind: the pauses too."""

    def hear(self, scene: Scene) -> None:
        """Take in which recordings are heard in a scene, each in every kind of stretch that it reaches."""
        for piece in scene.pieces:
            for kind in {part.kind for part in scene.stretches if _overlap(piece, part)}:
                heard, hours = self.heard.setdefault(kind, {}), (piece.end - piece.start) / SAMPLE_RATE / 3600
                heard[piece.source] = max(heard.get(piece.source, 0.0), hours)
                self.played[kind] = self.played.get(kind, 0.0) + hours
        for part in scene.stretches:
            self.hours[part.kind] = self.hours.get(part.kind, 0.0) + (part.end - part.start) / SAMPLE_RATE / 3600

    def add(
        self, scene: Scene, stretch: Stretch, decided: NDArray[np.int64], threshold: NDArray[np.int64], thresholds: int
    ) -> None:
        """Take in what was wrongly heard in a stretch: D samples at which it was decided, at which of T thresholds."""
        pieces = [piece for piece in scene.pieces if _overlap(piece, stretch)]
        accepts = self.accepts.setdefault(stretch.kind, {})
        times, place = np.unique(decided, return_inverse=True)
        came = origins_of(pieces, times)[place]
        known = came >= 0
        each, counts = np.unique(came[known] * thresholds + threshold[known], return_counts=True)
        for number, level, count in zip(each // thresholds, each % thresholds, counts, strict=True):
            accepts.setdefault(pieces[number].source, np.zeros(thresholds, np.int64))[level] += count

    def at(self, threshold: int = 0, kinds: Iterable[str] | None = None) -> Recordings:
        """What is wrongly heard at one of the thresholds; in all kinds of sound where none is named."""
        chosen = [kind for kind in (self.heard if kinds is None else kinds) if self.heard.get(kind)]
        heard: dict[str, float] = {}
        counts: dict[str, int] = {}
        for kind in chosen:
            for source, hours in self.heard[kind].items():
                heard[source] = max(heard.get(source, 0.0), hours)
            for source, numbers in self.accepts.get(kind, {}).items():
                counts[source] = counts.get(source, 0) + int(numbers[threshold])
        worst = sorted(((source, number) for source, number in counts.items() if number), key=lambda pair: -pair[1])
        every = sum(self.hours.get(kind, 0.0) for kind in chosen)
        played = sum(self.played.get(kind, 0.0) for kind in chosen)
        return Recordings(dict(worst), len(heard), every * sum(heard.values()) / played if played else 0.0)

    def by_kind(self, threshold: int = 0) -> dict[str, Recordings]:
        """The same by kind of sound, of those whose recordings are known."""
        return {kind: self.at(threshold, [kind]) for kind, heard in self.heard.items() if heard}


def _overlap(piece: Piece, stretch: Stretch) -> bool:
    return piece.start < stretch.end and piece.end > stretch.start


def origins_of(pieces: Sequence[Piece], decided: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which of P pieces each of D decisions came from: (D,) places among them, -1 before the first.

    The one that takes up most of the `JUDGED_SECONDS` seconds before the decision; where none does, the last before it.
    """
    if not pieces:
        return np.full(len(decided), -1)
    start, end = (np.array([getattr(piece, name) for piece in pieces]) for name in ("start", "end"))
    parts = [decided[first : first + _AT_ONCE] for first in range(0, len(decided), _AT_ONCE)]
    return np.concatenate([np.zeros(0, np.int64), *(_trace(start, end, part) for part in parts)])


def _trace(start: NDArray[np.int64], end: NDArray[np.int64], decided: NDArray[np.int64]) -> NDArray[np.int64]:
    at = decided[:, None]
    inside = np.minimum(at, end) - np.maximum(at - round(JUDGED_SECONDS * SAMPLE_RATE), start)
    last = np.where(start < at, end, -1)
    known = (last >= 0).any(axis=1)
    found: NDArray[np.int64] = np.where((inside > 0).any(axis=1), inside.argmax(axis=1), last.argmax(axis=1))
    return np.where(known, found, -1)
