"""From posteriors to a curve: hits and false accepts at every threshold, and hits at fixed false accepts an hour.

The protocol is in docs/hearing.md. A hit is a detection of the right word from the word's start to a second after its
end, each detection used once. A false accept is any detection in a stretch of sound without keywords.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.intervals import Interval, count_interval, share_interval
from auricle.hearing.origins import Origins
from auricle.hearing.rule import Detections, Posteriors, Rule, Thresholds, detect
from auricle.hearing.scenes import Scene, Spoken
from auricle.speech.audio import SAMPLE_RATE

RATES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""False accepts an hour at which hits are stated."""
WITHIN_SECONDS = 1.0
"""Seconds after the word's end within which a detection of it is a hit."""
GRID: Thresholds = 1 / (1 + np.exp(-np.linspace(-2.5, 12, 175)))
"""Thresholds that are tried: 0.076 to 0.999994, closest together near 1, where posteriors are."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Counts:
    """What T thresholds do to N spoken keywords and to sound without any; every other figure comes from it."""

    labels: tuple[str, ...]
    """L labels."""
    thresholds: Thresholds
    """(T, L), one row a threshold."""
    words: tuple[Spoken, ...]
    """N of them."""
    hit: Mask
    """(T, N)"""
    delay: NDArray[np.float32]
    """(T, N) seconds from the word's true end to its detection; nan where it was not heard."""
    false_accepts: dict[str, NDArray[np.int64]]
    """(T, L) by kind of stretch."""
    hours: dict[str, float]
    """Of sound without keywords, by kind."""
    wrong: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """(T,) detections among keywords that are no hits, by kind of the scene's first word."""
    origins: Origins = field(default_factory=Origins)
    """The same false accepts by the recordings that they came from."""

    def total(self, label: str | None = None) -> NDArray[np.int64]:
        """False accepts (T,) in all sound without keywords; of one word alone where it is named."""
        columns = slice(None) if label is None else [self.labels.index(label)]
        zero = np.zeros(len(self.thresholds), np.int64)
        return sum((counts[:, columns].sum(axis=1) for counts in self.false_accepts.values()), start=zero)

    @property
    def all_hours(self) -> float:
        """Hours of sound without keywords."""
        return sum(self.hours.values())

    def chosen(self, word: str | None = None, kind: str | None = None, speaker: str | None = None) -> Mask:
        """Which spoken keywords (N,) have this word, kind and speaker; those that are not named do not matter."""
        wanted = (word, kind, speaker)
        return np.array(
            [
                all(want in (None, has) for want, has in zip(wanted, (w.word, w.kind, w.speaker), strict=True))
                for w in self.words
            ],
            dtype=np.bool_,
        )


@dataclass(frozen=True)
class Point:
    """Hits at a fixed number of false accepts an hour."""

    rate: float
    """False accepts an hour that are allowed."""
    share: float
    """Of the keywords that were heard, interpolated between the thresholds on both sides."""
    words: int
    interval: Interval
    """Of the share."""
    shown: bool
    """Whether there are hours enough: no event in T hours only shows a rate under 3/T."""


def curve_of(
    posteriors: Sequence[Posteriors],
    scenes: Sequence[Scene],
    labels: Sequence[str],
    rule: Rule,
    thresholds: Thresholds = GRID,
) -> Counts:
    """Count what is heard in scenes at each of T thresholds.

    Parameters
    ----------
    posteriors
        (hops, L) of each scene; row h belongs to the hop that ends at sample (h + 1) * hop.
    scenes
        As many.
    labels
        L labels.
    rule
        Smoothing, patience, refractory time and hop.
    thresholds
        (T,) or (T, L).

    Raises
    ------
    DataError
        Another number of scenes than of posteriors, or shapes that do not fit.
    """
    if len(posteriors) != len(scenes):
        raise DataError(f"There are posteriors of {len(posteriors)} scenes and {len(scenes)} scenes.")
    levels = np.broadcast_to(
        thresholds[:, None] if thresholds.ndim == 1 else thresholds, (len(thresholds), len(labels))
    )
    words: list[Spoken] = []
    delays = [np.zeros((len(levels), 0), np.float32)]
    without = _Without(levels.shape)
    wrong: dict[str, NDArray[np.int64]] = {}
    for rows, scene in zip(posteriors, scenes, strict=True):
        found = detect(rows, labels, levels, rule)
        decided = (found.hop + 1) * round(rule.hop * SAMPLE_RATE)
        delay, used = match(scene.words, found, decided, labels, len(levels))
        words += scene.words
        delays.append(delay)
        inside = without.add(scene, found, decided, used)
        if scene.words:
            kind = scene.words[0].kind
            other = np.bincount(found.threshold[~used & ~inside], minlength=len(levels))
            wrong[kind] = wrong.get(kind, np.zeros(len(levels), np.int64)) + other
    delay = np.concatenate(delays, axis=1)
    return Counts(
        labels=tuple(labels),
        thresholds=levels,
        words=tuple(words),
        hit=~np.isnan(delay),
        delay=delay,
        false_accepts=without.accepts,
        hours=without.hours,
        wrong=wrong,
        origins=without.origins,
    )


class _Without:
    """What was detected in the stretches without keywords, by kind, and from which recordings it came."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self.accepts: dict[str, NDArray[np.int64]] = {}
        self.hours: dict[str, float] = {}
        self.origins = Origins()

    def add(self, scene: Scene, found: Detections, decided: NDArray[np.int64], used: Mask) -> Mask:
        """Count a scene's; which detections (D,), in order of `decided`, lie in such a stretch and no word has used."""
        self.origins.hear(scene)
        inside = np.zeros(len(found), np.bool_)
        bounds = np.array([(stretch.start, stretch.end) for stretch in scene.stretches], np.int64).reshape(-1, 2)
        for stretch, (first, last) in zip(scene.stretches, np.searchsorted(decided, bounds), strict=True):
            here = first + np.flatnonzero(~used[first:last])
            inside[here] = True
            counts = self.accepts.setdefault(stretch.kind, np.zeros(self._shape, np.int64))
            np.add.at(counts, (found.threshold[here], found.label[here]), 1)
            self.origins.add(scene, stretch, decided[here], found.threshold[here], self._shape[0])
            seconds = (stretch.end - stretch.start) / SAMPLE_RATE
            self.hours[stretch.kind] = self.hours.get(stretch.kind, 0.0) + seconds / 3600
        return inside


def match(
    words: Sequence[Spoken], found: Detections, decided: NDArray[np.int64], labels: Sequence[str], thresholds: int
) -> tuple[NDArray[np.float32], Mask]:
    """Give each word its first detection from its start to `WITHIN_SECONDS` after its end that no word before it has.

    Parameters
    ----------
    decided
        (D,) sample at which each detection was decided, in order.
    thresholds
        T.

    Returns
    -------
    tuple
        Delays (T, N) in seconds from the words' ends, nan without a hit; which detections (D,) are hits.
    """
    delays = np.full((thresholds, len(words)), np.nan, np.float32)
    used = np.zeros(len(found), np.bool_)
    firsts = np.searchsorted(decided, np.array([word.start for word in words], np.int64))
    ends = np.array([word.end for word in words], np.int64) + round(WITHIN_SECONDS * SAMPLE_RATE)
    lasts = np.searchsorted(decided, ends, side="right")
    for number, (word, first, last) in enumerate(zip(words, firsts, lasts, strict=True)):
        if word.word not in labels:
            continue
        right = (found.label[first:last] == labels.index(word.word)) & ~used[first:last]
        places = first + np.flatnonzero(right)
        at, where = np.unique(found.threshold[places], return_index=True)
        used[places[where]] = True
        delays[at, number] = (decided[places[where]] - word.end) / SAMPLE_RATE
    return delays, used


def interpolate(accepts: NDArray[np.int64], shares: NDArray[np.float64], hours: float, rate: float) -> float:
    """The share (of T) at a number of false accepts an hour, evenly between the two thresholds around it.

    Of several thresholds with as many false accepts the best counts; a share never falls where more are allowed. Fewer
    false accepts than at any threshold lead to 0 in proportion: that is what listening part of the time would do.
    """
    rates = np.concatenate(([0.0], accepts / hours))
    best = np.concatenate(([0.0], shares))
    order = np.lexsort((best, rates))
    rising = np.maximum.accumulate(best[order])
    last = np.append(np.flatnonzero(np.diff(rates[order])), len(order) - 1)
    return float(np.interp(rate, rates[order][last], rising[last]))


def points(
    counts: Counts, chosen: Mask | None = None, rates: Sequence[float] = RATES, alone: str | None = None
) -> list[Point]:
    """Hits at fixed false accepts an hour in all sound without keywords.

    Parameters
    ----------
    counts
        From `curve_of`.
    chosen
        Which spoken keywords (N,) are meant; None: all.
    rates
        False accepts an hour, of all words together.
    alone
        Only the false accepts of this word count: as if the device had no other.

    Raises
    ------
    DataError
        There is no keyword, or no sound without.
    """
    hits = counts.hit if chosen is None else counts.hit[:, chosen]
    if not hits.shape[1] or not counts.all_hours:
        raise DataError("A curve needs scenes with keywords and sound without: add recordings of what is missing.")
    shares, accepts, number = hits.mean(axis=1), counts.total(alone), hits.shape[1]
    enough = count_interval(0).high / counts.all_hours
    made = []
    for rate in rates:
        share = interpolate(accepts, shares, counts.all_hours, rate)
        made.append(Point(rate, share, number, share_interval(round(share * number), number), enough <= rate))
    return made
