"""How a pack's own models and its vote come to one posterior: the mean of their logarithms."""

from __future__ import annotations

import numpy as np

from auricle.errors import DataError
from auricle.hearing.rule import Posteriors

LEAST_POSTERIOR = 1e-7
"""Below which none is taken to be: a model that is sure that it is not this word does not forbid it."""


def add_vote(first: Posteriors, vote: Posteriors, share: float) -> Posteriors:
    """Posteriors (..., L) float32 that count: the softmax of (1 - share) log(first) + share log(vote).

    Each row is computed in float64 and for itself, so that a window has the same posteriors alone and among others.

    Parameters
    ----------
    first, vote
        Posteriors (..., L) of the same windows by the pack's own models and by its vote; below `LEAST_POSTERIOR` they
        count as that.
    share
        Of the vote, from 0 to 1: at 0 the result is `first`, at 1 it is `vote`, but for the floor.

    Raises
    ------
    DataError
        The shapes differ, or the share is out of range.
    """
    if first.shape != vote.shape or not 0 <= share <= 1:
        raise DataError(f"Posteriors {first.shape} and {vote.shape} with a share of {share:g} for the second: no vote.")
    one, two = (np.log(np.maximum(rows.astype(np.float64), LEAST_POSTERIOR)) for rows in (first, vote))
    mean = (1 - share) * one + share * two
    powers = np.exp(mean - mean.max(axis=-1, keepdims=True))
    joined: Posteriors = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
    return joined
