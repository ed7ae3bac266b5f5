"""What rules share that weigh a client as a whole: by samples, equally, by its loss, or by labelled clips."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, BoolArray, Cohort, CohortError, Float64Array, FloatArray
from auricle_learning.aggregation.rules.average import sample_share
from auricle_learning.aggregation.rules.fedvsa import LossOptions, limit_losses, softmax_share

WEIGHTINGS = ("samples", "uniform", "fedvsa")
Weighting = Annotated[
    Literal["samples", "uniform", "fedvsa"],
    Meta(
        description='What clients weigh: "samples" for n_k / Σ n, "uniform" for 1 / K, or "fedvsa" for the softmax of '
        "their limited losses; `clip` and `limit` count with that alone."
    ),
]
SHORTEST, LEAST_LENGTH = 1e-12, 1e-140
"""An update shorter than this part of the longest, or than this, has no direction: rounding decides it, and its square
may be 0."""
NO_CLIPS = "the rule needs labelled clips at the coordinator, or the update that they gave."


class WeightedOptions(LossOptions, frozen=True):
    """Options of a rule that weighs clients by samples, equally, or by their losses."""

    weighting: Weighting = "samples"


def client_share(cohort: Cohort, options: WeightedOptions, *, kept: BoolArray | None = None) -> Float64Array:
    """(K,) weights of the kept clients that sum to 1; all 0 where no loss is usable.

    Parameters
    ----------
    cohort
        K clients, at least one.
    kept
        (K,) who counts; None: everybody.
    """
    kept = np.ones(len(cohort.ids), np.bool_) if kept is None else kept
    if options.weighting == "fedvsa":
        limited = limit_losses(cohort.losses, clip=options.clip, limit=options.limit)
        usable = kept & ~np.isnan(limited)
        return softmax_share(limited, usable) if usable.any() else np.zeros(usable.shape)
    samples = cohort.samples if options.weighting == "samples" else np.ones_like(cohort.samples)
    return sample_share(samples, kept[:, None])[:, 0] if kept.any() else np.zeros(kept.shape)


def moved(cohort: Cohort, share: Float64Array) -> Float64Array:
    """w^t + Σ_k s_k (w_k - w^t) (P,) in float64, for weights (K,) that need not sum to 1."""
    total = cohort.matrix.weighted_sum(share[:, None], [(slice(0, cohort.start.size),)])
    rest = 1.0 - float(share.sum())
    if abs(rest) > 1e-12:
        total += rest * cohort.start
    return total


def update_norms(cohort: Cohort) -> Float64Array:
    """(K,) ||w_k - w^t||."""
    whole = [(slice(0, cohort.start.size),)]
    return cohort.matrix.layer_norms(whole, centre=cohort.start.astype(np.float64))[:, 0]


def have_direction(norms: Float64Array, beside: float = 0.0) -> BoolArray:
    """(K,) whose update, of the lengths `norms` (K,) and next to one of the length `beside`, has a direction."""
    longest = max(float(norms.max(initial=0.0)), beside)
    return np.asarray(norms > max(SHORTEST * longest, LEAST_LENGTH))


def update_products(cohort: Cohort) -> Float64Array:
    """(K, K) ⟨w_i - w^t, w_j - w^t⟩, from the norms and the clients' distances from each other."""
    squares = np.square(update_norms(cohort))
    products: Float64Array = (squares[:, None] + squares - cohort.matrix.squared_distances()) / 2
    np.fill_diagonal(products, squares)
    return products


def products_with(cohort: Cohort, vector: Float64Array) -> Float64Array:
    """(K,) ⟨w_k - w^t, vector⟩ for a vector (P,), from two norms."""
    whole = [(slice(0, cohort.start.size),)]
    there = cohort.matrix.layer_norms(whole, centre=cohort.start + vector)[:, 0]
    return (np.square(update_norms(cohort)) + float(vector @ vector) - np.square(there)) / 2


def of_clients(cohort: Cohort, weights: FloatArray, share: Float64Array, **more: object) -> Aggregate:
    """A result (P,) with one weight (K,) a client in all layers; `more` are further fields of the aggregate."""
    by_layer = np.repeat(share[:, None], len(cohort.layers), axis=1)
    return Aggregate(
        weights=weights.astype(cohort.start.dtype),
        ids=cohort.ids,
        layers=cohort.names,
        kept=by_layer != 0,
        share=by_layer,
        dropped=cohort.dropped,
        **more,  # type: ignore[arg-type]
    )


def reference_of(cohort: Cohort, *, epochs: int, lr: float | None) -> Float64Array:
    """g_r = w^t - w_server (P,): what is given, or plain SGD from w^t over the coordinator's batches.

    Parameters
    ----------
    cohort
        With `extras.reference`, or with `extras.objectives`.
    epochs
        Times that every batch is taken, in order.
    lr
        Of the SGD; None for the clients' `extras.rate`.

    Raises
    ------
    CohortError
        There are neither clips nor a reference, no learning rate is known, or the training diverged.
    """
    extras = cohort.extras
    if extras.reference is not None:
        reference = np.asarray(extras.reference, np.float64)
        if reference.shape != cohort.start.shape or not np.isfinite(reference).all():
            raise CohortError("the coordinator's own update is not a finite one of this model.")
        return reference
    rate = extras.rate if lr is None else lr
    if not extras.objectives or rate is None:
        raise CohortError(NO_CLIPS)
    start = cohort.start.astype(np.float64)
    weights = start.copy()
    for _ in range(epochs):
        for objective in extras.objectives:
            weights -= rate * objective(weights)[1]
    if not np.isfinite(weights).all():
        raise CohortError("training on the coordinator's labelled clips diverged: lower the method's lr.")
    return np.asarray(start - weights)
