"""Thresholds for a wanted number of false accepts, from what a model says about sound without keywords.

A threshold that was chosen just above what a recording reached holds on that recording and promises nothing for the
next one: of ten words, each with such a threshold, ten false accepts are to be expected on as many more hours. So one
part of the sound orders the thresholds from careful to keen, word by word, and the other part, which had no say in
that, decides how far along this order the device may go.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.rule import hold, smooth
from auricle.speech.features import LogMel
from auricle_edge.listening.detect.detector import Detector
from auricle_edge.listening.detect.recognisers import Posteriors, Recognise
from auricle_edge.listening.detect.rules import is_keyword
from auricle_edge.listening.detect.settings import DetectSettings
from auricle_edge.listening.detect.vote import Voter
from auricle_edge.listening.sound import RATE, Block

CONFIDENCE = 0.95


def most(count: int, confidence: float = CONFIDENCE) -> float:
    """Largest mean of a Poisson count that `count` events do not contradict: one-sided, exact (Garwood 1936).

    It is the m with P(N <= count | m) = 1 - confidence: 3.00 for 0 events at 95 %, 4.74 for 1, 6.30 for 2.
    """
    low, high = float(count), count + 10 * math.sqrt(count + 1) + 10
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(count, middle) > 1 - confidence else (low, middle)
    return high


def _at_most(count: int, mean: float) -> float:
    """P(N <= count) of a Poisson variable."""
    if mean == 0:
        return 1.0
    logs = (number * math.log(mean) - mean - math.lgamma(number + 1) for number in range(count + 1))
    return math.fsum(map(math.exp, logs))


def hours_to_show(rate: float, confidence: float = CONFIDENCE) -> float:
    """Hours without a single event that it takes to show at most `rate` an hour."""
    return most(0, confidence) / rate


def read_posteriors(
    samples: NDArray[np.int16],
    frontend: LogMel,
    labels: Sequence[str],
    recognise: Recognise,
    settings: DetectSettings,
    vote: Voter | None = None,
) -> Posteriors:
    """Posteriors (hops, L) of a recording, as the detector would come to them; 0 where it judged nothing.

    Parameters
    ----------
    samples
        (S,) at 16 kHz.
    frontend, labels, recognise, settings, vote
        As in `Detector`, and its errors.
    """
    plain = msgspec.structs.replace(settings, smoothing=1, patience=1)
    detector, hop = Detector(frontend, labels, recognise, plain, vote=vote), round(settings.hop * RATE)
    found = np.zeros((len(samples) // hop, len(labels)), np.float32)
    for number in range(len(found)):
        start = number * hop
        detector.feed(Block(samples[start : start + hop], start, (start + hop) / RATE))
        found[number] = list(detector.posteriors.values())
    return found


GRID = np.round(np.arange(0.3, 0.996, 0.01), 2)
"""Thresholds that are tried; below the first, noise alone would do."""
CAREFUL_STEPS = 20
"""Steps from the highest thresholds to those that one part of the sound never reaches."""
LARGEST_PART = 0.6
"""Share of all sound above which one recording is cut into two."""

Steps = NDArray[np.int64]
"""A threshold for each keyword, as indices of `GRID`, (K,)."""


@dataclass(frozen=True)
class Calibration:
    """Thresholds, and what they do to sound that had no part in ordering them."""

    thresholds: Mapping[str, float]
    false_accepts: Mapping[str, int]
    """On the sound that decided; a rise of several words at once counts for each."""
    hits: Mapping[str, float]
    """Share of a keyword's clips that reach its threshold; of those that had clips."""
    hours: float
    """Of all sound."""
    wanted: float
    """False accepts an hour, of all keywords together."""
    decided_hours: float
    """Of the sound that decided."""
    at_most: float
    """False accepts an hour of all keywords together, with 95 % confidence, in sound of this kind."""
    by_word: bool
    """Whether there was enough sound to order the words one by one; else all thresholds moved together."""

    @property
    def kept(self) -> bool:
        """Whether the wanted rate is shown; not where even the highest thresholds are reached too often."""
        return self.at_most <= self.wanted


def calibrate(
    others: Sequence[Posteriors],
    spoken: Mapping[str, Sequence[Posteriors]],
    labels: Sequence[str],
    wanted: float,
    settings: DetectSettings,
) -> Calibration:
    """Take the keenest thresholds of which the sound shows that all words together stay at `wanted` an hour.

    Counted are the rises of m above the threshold, m being the least smoothed posterior of the last K windows: a
    detection but for the refractory time and the other words, so that this never counts too few. With k rises in T
    hours the rate is at most `most(k)` / T with 95 % confidence (Poisson). Thresholds are tried in an order that was
    fixed before, from careful to keen, until this exceeds `wanted` for the first time; the confidence holds for what
    is chosen so (fixed sequence testing; Angelopoulos et al., "Learn then Test", 2021, section 2.3). The order:

    - with enough sound for two parts, by one of them: for each word the threshold that it reaches n times, for n from
      none up; before these, steps from the highest threshold down. The other part decides.
    - with less, the settings' own thresholds, all moved by the same amount; all of the sound decides.

    With wake words only these get a threshold: commands count only in the window after one.

    Parameters
    ----------
    others
        Posteriors (windows, L), hop by hop, of stretches of sound without keywords; a stretch is never in both parts,
        but for one that is longer than all others together.
    spoken
        The same of clips of single keywords, by word; may be empty.
    labels
        L labels.
    wanted
        False accepts an hour, of all keywords together.
    settings
        Hop, smoothing, patience, wake words and the thresholds of now.

    Raises
    ------
    DataError
        The sound is too short to show that rate, even if nothing in it were accepted.
    """
    keywords = list(settings.wake) or [label for label in labels if is_keyword(label)]
    columns = [list(labels).index(word) for word in keywords]
    hours = _hours(others, settings)
    needed = hours_to_show(wanted)
    if hours < needed:
        raise DataError(
            f"{hours * 60:.0f} minutes without a keyword cannot show {wanted:g} false accepts an hour: "
            f"record at least {needed * 60:.0f} minutes, better {2 * needed * 60:.0f}."
        )
    ordering, deciding = _parts(others)
    by_word = min(_hours(ordering, settings), _hours(deciding, settings)) >= needed
    if by_word:
        order = _by_word(_rises_of(ordering, columns, settings))
    else:
        order, deciding = _together(keywords, settings), list(others)
    rises, decided = _rises_of(deciding, columns, settings), _hours(deciding, settings)
    chosen = _keenest(order, rises, wanted * decided)
    counts = rises[np.arange(len(keywords)), chosen]
    thresholds = {word: float(GRID[step]) for word, step in zip(keywords, chosen, strict=True)}
    return Calibration(
        thresholds=thresholds,
        false_accepts={word: int(count) for word, count in zip(keywords, counts, strict=True)},
        hits=_hits(spoken, labels, thresholds, settings),
        hours=hours,
        wanted=wanted,
        decided_hours=decided,
        at_most=most(int(counts.sum())) / decided,
        by_word=by_word,
    )


def _keenest(order: Iterator[Steps], rises: NDArray[np.int64], allowed: float) -> Steps:
    """The last thresholds before the first that are reached too often; the first where those already are."""
    words = np.arange(len(rises))
    chosen = next(order)

    def too_often(steps: Steps) -> bool:
        count = int(rises[words, steps].sum())
        return count > allowed or most(count) > allowed

    if too_often(chosen):
        return chosen
    for steps in order:
        if too_often(steps):
            break
        chosen = steps
    return chosen


def _by_word(rises: NDArray[np.int64]) -> Iterator[Steps]:
    """From the highest thresholds to those that are never reached, then to those reached once, twice, ... by each."""
    highest = len(GRID) - 1
    never = _lowest_steps(rises, 0)
    for step in range(CAREFUL_STEPS):
        yield np.rint(highest + (never - highest) * step / CAREFUL_STEPS).astype(np.int64)
    for times in range(int(rises.max()) + 1):
        yield _lowest_steps(rises, times)


def _lowest_steps(rises: NDArray[np.int64], times: int) -> Steps:
    """For each word the lowest threshold from which on it is reached at most so many times."""
    too_often = rises > times
    last = len(GRID) - 1 - np.argmax(too_often[:, ::-1], axis=1)
    steps: Steps = np.where(too_often.any(axis=1), np.minimum(last + 1, len(GRID) - 1), 0)
    return steps


def _together(keywords: Sequence[str], settings: DetectSettings) -> Iterator[Steps]:
    """The settings' thresholds, raised by as much as the grid is long, then less and less, then lowered."""
    own = [settings.thresholds.get(word, settings.threshold) for word in keywords]
    now = np.searchsorted(GRID, np.round(own, 2))
    for shift in range(len(GRID), -len(GRID), -1):
        yield np.clip(now + shift, 0, len(GRID) - 1).astype(np.int64)


def _parts(stretches: Sequence[Posteriors]) -> tuple[list[Posteriors], list[Posteriors]]:
    """Two parts of about the same length, of whole stretches but where one is most of the sound."""
    whole = sum(len(stretch) for stretch in stretches)
    pieces: list[Posteriors] = []
    for stretch in stretches:
        halves = np.array_split(stretch, 2) if len(stretch) > LARGEST_PART * whole else [stretch]
        pieces += halves
    one: list[Posteriors] = []
    other: list[Posteriors] = []
    for piece in sorted(pieces, key=len, reverse=True):
        shorter = one if sum(map(len, one)) <= sum(map(len, other)) else other
        shorter.append(piece)
    return one, other


def _hours(stretches: Sequence[Posteriors], settings: DetectSettings) -> float:
    return sum(len(stretch) for stretch in stretches) * settings.hop / 3600


def _hits(
    spoken: Mapping[str, Sequence[Posteriors]],
    labels: Sequence[str],
    thresholds: Mapping[str, float],
    settings: DetectSettings,
) -> dict[str, float]:
    hits = {}
    for word, threshold in thresholds.items():
        column = list(labels).index(word)
        clips = [_least_of_last(clip[:, column], settings).max(initial=0) for clip in spoken.get(word, ())]
        if clips:
            hits[word] = float(np.mean(np.array(clips) >= threshold))
    return hits


def _rises_of(stretches: Sequence[Posteriors], columns: Sequence[int], settings: DetectSettings) -> NDArray[np.int64]:
    """How often each keyword rises to each threshold of the grid, (K, thresholds)."""
    counts = np.zeros((len(columns), len(GRID)), np.int64)
    for stretch in stretches:
        for row, column in enumerate(columns):
            counts[row] += _rises(_least_of_last(stretch[:, column], settings))
    return counts


def _least_of_last(posteriors: NDArray[np.float32], settings: DetectSettings) -> NDArray[np.float64]:
    """The least smoothed posterior of the last K windows, (windows,); -inf where there are fewer yet."""
    return hold(smooth(posteriors[:, None], settings.smoothing), settings.patience)[:, 0]


def _rises(held: NDArray[np.float64]) -> NDArray[np.int64]:
    """How often it rises to each threshold of the grid, (thresholds,)."""
    before = np.concatenate(([0.0], held[:-1]))
    counts: NDArray[np.int64] = ((held >= GRID[:, None]) & (before < GRID[:, None])).sum(axis=1)
    return counts
