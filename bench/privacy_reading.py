"""Log-mels that were read from what leaves a device: a regression that reads them, and how near the clip they are."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RIDGE = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Strengths that are tried, relative to the mean variance of what was sent."""

Array = NDArray[np.float64]


def correlation(a: Array, b: Array) -> float:
    """Pearson's, of two arrays of one shape; 0 where one is constant."""
    a, b = a.ravel() - a.mean(), b.ravel() - b.mean()
    length = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / length if length else 0.0


class Ridge:
    """Linear regression from what is sent of a clip (N, M) to its log-mels (N, F), with the best of `RIDGE`.

    The strength is the one with the least error on every fifth clip, which the others are fitted to.
    """

    def __init__(self, sent: Array, clips: Array) -> None:
        self._mean, self._scale, self._clips = sent.mean(0), sent.std(0) + 1e-9, clips.mean(0)
        x, y, held = (sent - self._mean) / self._scale, clips - self._clips, np.arange(len(sent)) % 5 == 0

        def fit(rows: NDArray[np.bool_], strength: float) -> Array:
            a = x[rows]
            return np.linalg.solve(a.T @ a + strength * len(a) * np.eye(a.shape[1]), a.T @ y[rows])

        def error(strength: float) -> float:
            return float(np.square(x[held] @ fit(~held, strength) - y[held]).sum())

        self._weights = fit(np.full(len(sent), True), min(RIDGE, key=error))

    def __call__(self, sent: Array) -> Array:
        """Log-mels (F,) of what was sent (M,)."""
        return self._clips + (sent - self._mean) / self._scale @ self._weights


class Reading(NamedTuple):
    """What came of one clip."""

    right: float
    """Correlation of what was read with it."""
    wrong: float
    """With the best of the other candidates."""
    nearest: bool
    """Whether it is the nearest of all."""
    found: bool
    """Whether comparing what each candidate would have sent finds it."""


def reading(read: Array, clips: Array, mean: Array, scores: Array) -> Reading:
    """Compare log-mels that were read with those of candidates (C, F), of which the first is the right one.

    Parameters
    ----------
    mean
        (F,) of the word, as the attacker knows it.
    scores
        (C,) how well what each would have sent fits what was sent.
    """
    each = [correlation(read - mean, clip - mean) for clip in clips]
    return Reading(each[0], max(each[1:]), each[0] > max(each[1:]), bool(scores[0] > scores[1:].max()))
