"""Differences of pairs: what they show of a method beside another one, with few seeds."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

import numpy as np

MOST_SIGNS = 16
"""Pairs up to which every choice of signs is counted: 65,536 of them."""
CONFIDENCE = 0.95


def sign_flip(differences: Sequence[float]) -> float:
    """The p-value of the sign-flip test of paired differences (Fisher 1935, The Design of Experiments, section 21).

    Were both methods the same, each difference could as well have the other sign: p is the share of all 2^n choices of
    signs whose sum is at least as far from 0 as the one that was found, above `MOST_SIGNS` pairs of 65,536 drawn ones.
    So the least that n pairs can show is 2 / 2^n: 0.25 with three seeds, 0.063 with five.
    """
    count = len(differences)
    if count <= MOST_SIGNS:
        signs = np.array(list(itertools.product((1, -1), repeat=count)), float)
    else:
        signs = np.random.default_rng(0).choice((1.0, -1.0), (1 << MOST_SIGNS, count))
    sums = np.abs(signs @ np.asarray(differences, float))
    return float(np.mean(sums >= abs(sum(differences)) - 1e-12))


def interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean of paired differences: mean ± t s / sqrt(n), t of n - 1 degrees of freedom.

    It takes the differences for draws of one normal distribution, s being their standard deviation (n - 1). None of
    fewer than two.
    """
    count = len(differences)
    if count < 2:
        return None
    half = student(CONFIDENCE, count - 1) * statistics.stdev(differences) / math.sqrt(count)
    middle = statistics.fmean(differences)
    return middle - half, middle + half


def student(confidence: float, freedom: int) -> float:
    """The t above 0 with P(|T| <= t) = `confidence` for Student's t of so many degrees of freedom, to 1e-9 of it."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """P(|T| <= t), by the series of Abramowitz and Stegun 1964, 26.7.3 (odd degrees) and 26.7.4 (even)."""
    theta = math.atan(t / math.sqrt(freedom))
    square = math.cos(theta) ** 2
    term = math.cos(theta) if freedom % 2 else 1.0
    total = 0.0
    for k in range(1 if freedom % 2 else 0, freedom - 1, 2):
        total += term
        term *= square * (k + 1) / (k + 2)
    return 2 / math.pi * (theta + math.sin(theta) * total) if freedom % 2 else math.sin(theta) * total
