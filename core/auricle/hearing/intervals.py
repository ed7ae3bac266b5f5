"""Exact 95 % intervals: Clopper and Pearson's for shares, Garwood's for rates of rare events."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError

LEVEL = 0.95
_STEPS = 60
"""Halvings of the bisection: more than a float64 has bits between 0 and 1."""


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`."""

    low: float
    high: float


@lru_cache(maxsize=4_096)
def share_interval(hits: int, of: int, level: float = LEVEL) -> Interval:
    """Clopper-Pearson interval of a share: the p for which `hits` or more, and `hits` or fewer, have (1 - level) / 2.

    Clopper and Pearson, Biometrika 26(4), 1934. Of nothing it is 0 to 1.

    Raises
    ------
    DataError
        More hits than there were, or fewer than none.
    """
    if not 0 <= hits <= of:
        raise DataError(f"{hits} of {of} is not a share.")
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else _solve(lambda p: 1 - _binomial(hits - 1, of, p) - tail, 0.0, 1.0)
    high = 1.0 if hits == of else _solve(lambda p: tail - _binomial(hits, of, p), 0.0, 1.0)
    return Interval(low, high)


@lru_cache(maxsize=4_096)
def count_interval(events: int, level: float = LEVEL) -> Interval:
    """Garwood's interval of the expected number of events where so many were seen.

    Garwood, Biometrika 28(3/4), 1936. Where none was seen it is one-sided, from 0 to -ln(1 - level): 3.0 at 95 %, the
    "rule of three", so that no events in T hours show a rate under 3/T and nothing more.

    Raises
    ------
    DataError
        Fewer than none.
    """
    if events < 0:
        raise DataError(f"{events} is not a number of events.")
    if events == 0:
        return Interval(0.0, -math.log(1 - level))
    tail, most = (1 - level) / 2, 2.0 * events + 30
    low = _solve(lambda mean: 1 - _poisson(events - 1, mean) - tail, 0.0, most)
    return Interval(low, _solve(lambda mean: tail - _poisson(events, mean), 0.0, most))


def rate_interval(events: int, hours: float, level: float = LEVEL) -> Interval:
    """The same an hour; 0 to infinity where nothing was listened to."""
    if hours <= 0:
        return Interval(0.0, math.inf)
    expected = count_interval(events, level)
    return Interval(expected.low / hours, expected.high / hours)


def _solve(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses 0, by bisection."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2


@lru_cache(maxsize=64)
def _log_factorials(most: int) -> NDArray[np.float64]:
    """ln n! for n of 0 to `most`."""
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, most + 1)))))


def _binomial(most: int, of: int, p: float) -> float:
    """Probability of at most so many hits, 0 < p < 1."""
    logs, k = _log_factorials(of), np.arange(most + 1)
    terms = logs[of] - logs[k] - logs[of - k] + k * math.log(p) + (of - k) * math.log1p(-p)
    return float(np.exp(terms).sum())


def _poisson(most: int, mean: float) -> float:
    """Probability of at most so many events, mean > 0."""
    k = np.arange(most + 1)
    return float(np.exp(k * math.log(mean) - mean - _log_factorials(most)[k]).sum())
