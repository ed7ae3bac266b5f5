"""The models that parts of a round's clients would have made, and what they are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from auricle_cloud.detection.shapley import Values
from auricle_learning.aggregation.cohort import Aggregate, BoolArray, Cohort, Float64Array, FloatArray
from auricle_learning.aggregation.rules.fedvsa import limit_losses, softmax_share

Models = Callable[[BoolArray], FloatArray]
"""Coalitions (M, K) -> the models (M, P) that their members alone would have made."""

SPAN = 1 << 16
"""Weights of all clients that are averaged at once."""
MOST_NUMBERS = 1 << 24
"""Weights of all coalitions' models that are held at once, 64 MB."""


def subset(cohort: Cohort, members: BoolArray) -> Cohort:
    """Return the round as if only some clients (K,) had taken part."""
    return replace(
        cohort,
        ids=tuple(client for client, is_member in zip(cohort.ids, members, strict=True) if is_member),
        weights=cohort.weights[members],
        samples=cohort.samples[members],
        losses=cohort.losses[members],
        registered=None if cohort.registered is None else cohort.registered[members],
        extras=cohort.extras.taken(np.flatnonzero(members).tolist(), len(cohort.ids)),
    )


def loss_models(cohort: Cohort, *, clip: float = 5.0, limit: str = "clamp") -> Models:
    """Aggregate each coalition by losses, as FedVSA: Σ_{k∈S} softmax_S(f) w_k, the softmax being renormalised inside S.

    f is limited over the whole cohort, as in the round itself. A client without a loss adds nothing; a coalition of
    none but these keeps w^t.

    Parameters
    ----------
    cohort
        The K updates of the poisoned round.
    clip, limit
        As in `fedvsa`.
    """
    limited = limit_losses(cohort.losses, clip=clip, limit=limit)

    def models(members: BoolArray) -> FloatArray:
        counting = members & ~np.isnan(limited)
        empty = ~counting.any(axis=1)
        share = np.array([softmax_share(limited, row) if row.any() else np.zeros(row.shape) for row in counting])
        made = np.empty((len(members), cohort.start.size), cohort.start.dtype)
        for start in range(0, cohort.start.size, SPAN):
            span = slice(start, start + SPAN)
            made[:, span] = share @ cohort.weights[:, span].astype(np.float64)
        made[empty] = cohort.start
        return made

    return models


def rule_models(cohort: Cohort, rule: Callable[[Cohort], Aggregate]) -> Models:
    """Aggregate each coalition by a rule, as if only its members had taken part in the round."""

    def models(members: BoolArray) -> FloatArray:
        return np.stack([rule(subset(cohort, row)).weights for row in members])

    return models


def worth(cohort: Cohort, models: Models, accuracy: Callable[[FloatArray], Float64Array]) -> Values:
    """Make the game that `shapley` plays: v(S) is the accuracy of S's model, v(∅) that of the model before the round.

    S's model is the aggregate itself; the server's optimizer, which moves towards it, has no part in the judgement.

    Parameters
    ----------
    cohort
        The K updates of the poisoned round.
    models
        `loss_models` or `rule_models` of it.
    accuracy
        Models (M, P) -> accuracies (M,) on a validation set. It is given as many models at once as 64 MB hold.
    """
    rows = max(1, MOST_NUMBERS // cohort.start.size)

    def values(members: BoolArray) -> Float64Array:
        found = np.empty(len(members))
        for start in range(0, len(members), rows):
            batch = members[start : start + rows]
            made = models(batch)
            made[~batch.any(axis=1)] = cohort.start
            found[start : start + rows] = accuracy(made)
        return found

    return values
