"""How much one device's number may count: bounds by what the cohort's middle device says and by shares of a round."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from auricle_learning.aggregation.cohort import Float64Array

HALF = 0.49
"""Largest share of one device from `FEWEST` devices on: nobody has half of a round."""
UNBOUNDED = 1e9
"""A factor from which on nobody's numbers or shares are bounded."""
SLACK = 1e-9
"""Relative: what is above its bound by rounding alone is left as it is."""
FEWEST = 3
"""With fewer devices nothing tells which of them is the odd one."""


def cap_samples(samples: Float64Array, registered: Float64Array | None, factor: float) -> Float64Array:
    """Bound sample counts.

    With m the median of n (of an even number the lower of the middle two), n_k becomes the least of n_k, `factor` m,
    and, where k registered r_k clips, max(`factor` r_k, m): clips grow between two registrations, and what goes
    beyond that counts up to what is usual. Then the largest are cut until none is more than `bound` says of the sum.

    Parameters
    ----------
    samples
        (K,) n_k, at least one.
    registered
        (K,) r_k, NaN where not known; None: not known of any.
    factor
        At least 1.
    """
    middle = middle_of(samples)
    capped = np.minimum(samples, factor * middle) if middle > 0 else samples.copy()
    if registered is not None:
        known = np.isfinite(registered)
        capped[known] = np.minimum(capped, np.maximum(factor * registered, middle))[known]
    return np.minimum(capped, ceiling(capped, factor))


def total_of(registered: Sequence[float], factor: float) -> float:
    """Σ n over a fleet, of the clips that its devices registered (N,), each held as the samples of a round are."""
    return float(cap_samples(np.array(registered, np.float64), None, factor).sum()) if len(registered) else 0.0


def cap_losses(limited: Float64Array, factor: float) -> Float64Array:
    """Cut the largest losses until none has more of the softmax over those that are known than `bound` says.

    Parameters
    ----------
    limited
        (K,) losses as the rule limits them; NaN stays NaN.
    factor
        At least 1.
    """
    known = ~np.isnan(limited)
    if not known.any():
        return limited
    top = float(limited[known].max())
    highest = ceiling(np.exp(np.where(known, limited, -math.inf) - top), factor)
    return limited if math.isinf(highest) else np.minimum(limited, top + math.log(highest))


def cap_steps(steps: Float64Array, fewest: Float64Array, most: Float64Array, factor: float) -> Float64Array:
    """Bound numbers of steps.

    With m the median of those above 0 (of an even number the lower of the middle two), τ_k above 0 becomes at most
    `factor` m and at most what the plan allows for the device's clips, and then at least what these take.

    Parameters
    ----------
    steps
        (K,) τ_k.
    fewest, most
        (K,) steps that the plan allows for so many clips.
    factor
        At least 1.
    """
    taken = steps > 0
    if not taken.any():
        return steps
    allowed = np.minimum(steps, most)
    highest = np.minimum(most, factor * middle_of(allowed[taken]))
    return np.where(taken, np.maximum(np.minimum(allowed, highest), np.minimum(fewest, highest)), steps)


def bound(counting: int, of: int, factor: float) -> float:
    """The largest share of one device: `factor` / m, and from three devices on less than half.

    min(`factor` / m, `HALF`) for m of at least three that count. Two that are left of three or more count alike, 1/2
    each; one that is left alone, and two of two, have no bound but `factor` / m.

    Parameters
    ----------
    counting
        m, how many count, at least 1.
    of
        Devices of the round.
    factor
        At least 1.
    """
    if factor >= UNBOUNDED or of < FEWEST or counting == 1:
        return factor / counting
    return min(factor / counting, HALF if counting >= FEWEST else 0.5)


def ceiling(weights: Float64Array, factor: float) -> float:
    """The largest c with which no min(w_k, c) has more of their sum than `bound` says, m counting those above 0.

    Infinite where the weights keep this as they are. With b the bound and the j largest cut, c is b (rest) / (1 - j b);
    the least j is taken for which nobody else is above it.
    """
    descending = np.sort(weights[weights > 0])[::-1]
    count = descending.size
    share = bound(count, weights.size, factor) if count else 1.0
    if share >= 1:
        return math.inf
    rest = descending[::-1].cumsum()[::-1]
    if descending[0] <= share * rest[0] * (1 + SLACK):
        return math.inf
    for cut in range(1, count):
        highest = float(share * rest[cut] / (1 - cut * share)) if cut * share < 1 else math.inf
        if descending[cut] <= highest * (1 + SLACK):
            return highest
    return float(descending[-1])


def middle_of(values: Float64Array) -> float:
    """The median of values (K,); of an even number the lower of the middle two."""
    return float(np.sort(values)[(values.size - 1) // 2])
