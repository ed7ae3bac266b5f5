"""Thresholds by keyword, or one for all, with which all keywords together keep to a number of false accepts an hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.curve import Counts
from auricle.hearing.rule import keyword_mask

LEAST = 0.3
"""No threshold is set below this: that no false accept was seen there only says that too little was heard."""


@dataclass(frozen=True)
class WordThresholds:
    """Thresholds by keyword, and what they do to the sound that they were chosen on."""

    thresholds: dict[str, float]
    false_accepts: dict[str, int]
    hits: dict[str, float]
    """Share by keyword; of those that were spoken."""
    hours: float

    @property
    def rate(self) -> float:
        """False accepts an hour, of all keywords together."""
        return sum(self.false_accepts.values()) / self.hours


def thresholds_for(counts: Counts, rate: float, least: float = LEAST) -> WordThresholds:
    """Choose the thresholds that hear most words with at most `rate` false accepts an hour.

    A keyword's detections depend on its own threshold only, so false accepts of all add up exactly. Each keyword begins
    at its highest threshold; then, again and again, that threshold is lowered which gains the largest share of its
    word's utterances for each further false accept, as far as that is worth most and what is allowed is not used up. Of
    thresholds with as many false accepts the lowest is taken. Of a keyword that was never spoken the logarithm of its
    false accepts stands for the gain, so that such keywords share what is allowed.

    Parameters
    ----------
    counts
        From `curve_of`, with one threshold a row for all words, lowest first.
    rate
        False accepts an hour that are allowed, of all keywords together.
    least
        The lowest threshold that may be chosen.

    Raises
    ------
    DataError
        There is no sound without keywords, or too little to show such a rate.
    """
    hours = _hours_that_show(counts, rate)
    names = _keywords(counts)
    allowed = np.flatnonzero(counts.thresholds[:, 0] >= least)
    ladders = [_ladder(counts, name, allowed) for name in names]
    place = [0] * len(names)
    left = hours * rate - sum(float(ladder.accepts[0]) for ladder in ladders)
    while (step := _best_step(ladders, place, left)) is not None:
        word, to = step
        left -= float(ladders[word].accepts[to] - ladders[word].accepts[place[word]])
        place[word] = to
    rows = [int(ladder.rows[at]) for ladder, at in zip(ladders, place, strict=True)]
    return _thresholds_of(counts, names, rows, hours)


def threshold_for(counts: Counts, rate: float, least: float = LEAST) -> WordThresholds:
    """Choose the lowest threshold, the same for all keywords, with at most `rate` false accepts an hour.

    For sound that was not heard while choosing, it keeps to the rate far better than thresholds by word
    (docs/pretrain.md): those are lowest for the words that nothing happened to be mistaken for.

    Parameters
    ----------
    counts, rate, least
        As in `thresholds_for`.

    Raises
    ------
    DataError
        There is no sound without keywords, or too little to show such a rate.
    """
    hours = _hours_that_show(counts, rate)
    names = _keywords(counts)
    accepts = np.sum([counts.total(name) for name in names], axis=0)
    fits = (accepts <= hours * rate) & (counts.thresholds[:, 0] >= least)
    row = int(fits.argmax()) if fits.any() else len(fits) - 1
    return _thresholds_of(counts, names, [row] * len(names), hours)


def _hours_that_show(counts: Counts, rate: float) -> float:
    hours = counts.all_hours
    if hours * rate < 1:
        needed = f"{60 / rate:.0f} minutes" if rate > 0 else "endless sound"
        raise DataError(f"{hours * 60:.0f} minutes without keywords cannot show {rate:g} an hour: it takes {needed}.")
    return hours


def _keywords(counts: Counts) -> list[str]:
    return [label for label, is_word in zip(counts.labels, keyword_mask(counts.labels), strict=True) if is_word]


def _thresholds_of(counts: Counts, names: Sequence[str], rows: Sequence[int], hours: float) -> WordThresholds:
    """What the chosen rows of thresholds, by keyword, do to this sound."""
    hits = {
        name: float(counts.hit[row][spoken].mean())
        for name, row in zip(names, rows, strict=True)
        if (spoken := counts.chosen(name)).any()
    }
    return WordThresholds(
        {name: float(counts.thresholds[row, counts.labels.index(name)]) for name, row in zip(names, rows, strict=True)},
        {name: int(counts.total(name)[row]) for name, row in zip(names, rows, strict=True)},
        hits,
        hours,
    )


@dataclass(frozen=True, eq=False)
class _Ladder:
    """A keyword's thresholds worth choosing, from the highest down, with false accepts and what they gain."""

    rows: NDArray[np.int64]
    accepts: NDArray[np.int64]
    gain: NDArray[np.float64]


def _ladder(counts: Counts, name: str, allowed: NDArray[np.int64]) -> _Ladder:
    accepts, spoken = counts.total(name)[allowed], counts.chosen(name)
    costs, first = np.unique(accepts, return_index=True)
    rows = allowed[first]
    if spoken.any():
        return _Ladder(rows, costs, np.maximum.accumulate(counts.hit[rows][:, spoken].mean(axis=1)))
    return _Ladder(rows, costs, np.log1p(costs) / np.log1p(max(1, costs[-1])))


def _best_step(ladders: Sequence[_Ladder], place: Sequence[int], left: float) -> tuple[int, int] | None:
    """The keyword, and the place on its ladder, that gains most for each false accept and fits into what is left."""
    steps: list[tuple[float, int, int]] = []
    for word, (ladder, at) in enumerate(zip(ladders, place, strict=True)):
        cost, gain = ladder.accepts[at + 1 :] - ladder.accepts[at], ladder.gain[at + 1 :] - ladder.gain[at]
        worth = np.where((cost <= left) & (gain > 0), gain / cost, 0)
        if worth.any():
            best = int(worth.argmax())
            steps.append((float(worth[best]), -word, at + 1 + best))
    if not steps:
        return None
    _, word, to = max(steps)
    return -word, to
