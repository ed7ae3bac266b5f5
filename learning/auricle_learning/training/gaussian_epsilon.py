"""The epsilon of the noise that a device adds to its own updates, without a library that no board has."""

from __future__ import annotations

import math

LARGEST_EPSILON = 700.0
"""Epsilon above which this says infinity: it promises nothing, and e^epsilon is no number any more."""


def gaussian_epsilon(precision: float, delta: float) -> float:
    """Epsilon of Gaussian mechanisms one after the other: the analytic one of their common multiplier.

    Mechanisms of the multipliers z_r compose to one of 1 / sqrt(sum_r 1 / z_r^2) (Dong et al. 2022,
    https://arxiv.org/abs/1905.02383), whose epsilon is the least for which, with mu = sqrt(sum_r 1 / z_r^2),
    Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) <= delta (Balle and Wang 2018, theorem 8,
    https://arxiv.org/abs/1805.06530).

    Parameters
    ----------
    precision
        sum_r 1 / z_r^2, with z_r the standard deviation of a round's noise, divided by the most by which its update may
        move: 2 C, for any data of the device may stand for any other. Infinite where a round had no noise.
    delta
        Above 0, below 1.

    Returns
    -------
    float
        0 without mechanisms; infinity above `LARGEST_EPSILON`. Never below the true one, and above it by 1e-6 at most.
    """
    if precision <= 0:
        return 0.0
    mu = math.sqrt(precision)
    if not math.isfinite(mu) or _delta(LARGEST_EPSILON, mu) > delta:
        return math.inf
    low, high = 0.0, LARGEST_EPSILON
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (low, middle) if _delta(middle, mu) <= delta else (middle, high)
    return high


def _delta(epsilon: float, mu: float) -> float:
    return _phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * _phi(-mu / 2 - epsilon / mu)


def _phi(x: float) -> float:
    """The standard normal distribution function."""
    return math.erfc(-x / math.sqrt(2)) / 2
