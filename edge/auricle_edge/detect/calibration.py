"""Thresholds for a wanted number of false accepts, from what a model says about sound without keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_edge.detect.decision import is_keyword
from auricle_edge.detect.recognisers import Posteriors
from auricle_edge.detect.settings import DetectSettings

GRID = np.round(np.arange(0.3, 0.996, 0.01), 2)
"""Thresholds that are tried; below the first, noise alone would do."""


@dataclass(frozen=True)
class Calibration:
    """Thresholds, and what they do to the sound they were chosen on."""

    thresholds: Mapping[str, float]
    false_accepts: Mapping[str, int]
    hits: Mapping[str, float]
    """Share of a keyword's clips that reach its threshold; of those that had clips."""
    hours: float


def calibrate(
    others: Sequence[Posteriors], spoken: Mapping[str, Sequence[Posteriors]], labels: Sequence[str], wanted: float,
    settings: DetectSettings,
) -> Calibration:  # fmt: skip
    """Take for each keyword the lowest threshold at which it is accepted wrongly `wanted` / keywords times an hour.

    Counted are the rises of m above the threshold, m being the least smoothed posterior of the last K windows: a
    detection but for the refractory time, so that this never counts too few. Where even the highest threshold is
    reached too often, the highest stands. With wake words only these get a threshold: commands count seldom.

    Parameters
    ----------
    others
        Posteriors (windows, L), hop by hop, of stretches of sound without keywords.
    spoken
        The same of clips of single keywords, by word; may be empty.
    labels
        L labels.
    wanted
        False accepts an hour, of all keywords together.
    settings
        Hop, smoothing, patience and wake words.

    Raises
    ------
    DataError
        The sound without keywords is shorter than one false accept would have to be apart, so it shows nothing.
    """
    keywords = list(settings.wake) or [label for label in labels if is_keyword(label)]
    hours = sum(len(stretch) for stretch in others) * settings.hop / 3600
    if hours * wanted < 1:
        raise DataError(
            f"{hours * 60:.0f} minutes without a keyword cannot show {wanted:g} false accepts an hour: "
            f"record at least {60 / wanted if wanted else np.inf:.0f} minutes."
        )
    budget = wanted * hours / len(keywords)
    thresholds, accepts, hits = {}, {}, {}
    for word in keywords:
        column = list(labels).index(word)
        rises = np.sum([_rises(_held(stretch[:, column], settings)) for stretch in others], axis=0)
        too_often = np.flatnonzero(rises > budget)
        place = min(int(too_often[-1]) + 1, len(GRID) - 1) if len(too_often) else 0
        thresholds[word], accepts[word] = float(GRID[place]), int(rises[place])
        clips = [_held(clip[:, column], settings).max(initial=0) for clip in spoken.get(word, ())]
        if clips:
            hits[word] = float(np.mean(np.array(clips) >= thresholds[word]))
    return Calibration(thresholds, accepts, hits, hours)


def _held(posteriors: NDArray[np.float32], settings: DetectSettings) -> NDArray[np.float64]:
    """The least smoothed posterior of the last K windows, (windows,)."""
    window, patience = settings.smoothing, settings.patience
    padded = np.concatenate((np.zeros(window - 1), posteriors))
    smoothed = np.lib.stride_tricks.sliding_window_view(padded, window).mean(axis=1)
    padded = np.concatenate((np.zeros(patience - 1), smoothed))
    held: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(padded, patience).min(axis=1)
    return held


def _rises(held: NDArray[np.float64]) -> NDArray[np.int64]:
    """How often it rises to each threshold of the grid, (thresholds,)."""
    before = np.concatenate(([0.0], held[:-1]))
    counts: NDArray[np.int64] = ((held >= GRID[:, None]) & (before < GRID[:, None])).sum(axis=1)
    return counts
