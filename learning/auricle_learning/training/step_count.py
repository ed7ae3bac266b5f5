"""How many steps a device's round takes, of its clips alone: known before it trains."""

from __future__ import annotations

import math

from auricle_learning.training.carried import places_of
from auricle_learning.training.fixmatch import Count


def steps_of(count: Count, epochs: int, batch: int, share: float = 0.0, negatives: int = 0) -> int:
    """Steps of a round: E max(ceil(n / (B - w)), ceil(u / B)), n clips with labels, u without, w places for windows.

    The steps that `batches` and `two_view_batches` make in all passes of a round. A device that learns from clips
    without labels of its own accord, which the plan does not ask for, has them in the places of these steps.

    Parameters
    ----------
    count
        n, and u where the plan asks for FixMatch.
    epochs
        E, of all passes.
    batch
        B, of the step graph.
    share
        Of a batch that is windows of the pack's negatives; 0 where it carries none to train on.
    negatives
        The device's own among the clips with labels, which leave less to the pack's.
    """
    places = batch - (places_of(share, negatives, batch) if share and count.labelled else 0)
    return epochs * max(math.ceil(count.labelled / places), math.ceil(count.unlabelled / batch))
