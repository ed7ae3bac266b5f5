"""Losses that no cohort tells by itself: who says one is set aside before the comparison of eq. 12.

The reference of eq. 12 is the largest loss of a cohort, which one client could set to whatever it likes: with 10^6 no
later loss is ever above it. What stands in the formula is not changed; it is given what is believable.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

SPREAD = 6.0
"""Scaled median deviations from the median; 20 speakers' losses of a pack's trained model reach 5.7."""
LEAST_SPREAD = 0.1
"""Of the median, what a deviation is taken for at least: equal devices differ by little more than rounding."""
FEWEST = 4
"""With fewer losses nothing tells which of them is wrong."""
NORMAL = 1.4826
"""Times the median deviation is the standard deviation, of a normal distribution."""


def set_aside(losses: Mapping[str, float]) -> tuple[str, ...]:
    """Name whose loss is too far from the others' to be one, either way, in ascending order.

    Further than 6 s from the median m, with s = max(1.4826 median |F_k - m|, 0.1 m). It holds for fewer than half of
    the cohort. A loss that is not finite is not named: it is a vote (A39).

    Parameters
    ----------
    losses
        F_k(w^t) by client id, in nats.
    """
    finite = {client: loss for client, loss in losses.items() if math.isfinite(loss)}
    if len(finite) < FEWEST:
        return ()
    middle = statistics.median(finite.values())
    deviation = statistics.median(abs(loss - middle) for loss in finite.values())
    reach = SPREAD * max(NORMAL * deviation, LEAST_SPREAD * abs(middle))
    return tuple(sorted(client for client, loss in finite.items() if abs(loss - middle) > reach))


def believed(losses: Mapping[str, float]) -> dict[str, float]:
    """The losses without those that `set_aside` names."""
    doubted = set(set_aside(losses))
    return {client: loss for client, loss in losses.items() if client not in doubted}
