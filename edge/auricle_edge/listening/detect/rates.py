"""How often something happens, from how often it was seen: Poisson intervals."""

from __future__ import annotations

import math

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
