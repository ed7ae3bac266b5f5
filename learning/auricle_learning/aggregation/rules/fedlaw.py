"""Learned aggregation weights, FedLAW (Li et al. 2023, https://arxiv.org/abs/2302.10911)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort, CohortError, Float64Array
from auricle_learning.aggregation.extras import Objective
from auricle_learning.aggregation.options import Count, Options, Positive
from auricle_learning.aggregation.rules.average import sample_share, unchanged
from auricle_learning.aggregation.rules.weighting import NO_CLIPS, of_clients, products_with

SCORE = "learned weight before shrinking"
DIVERGED = "the weights learned on labelled clips are not finite: the model is unchanged; lower the method's lr"
BETA1, BETA2, EPSILON = 0.5, 0.999, 1e-8
LEAST = 1e-12
"""Least p_k of which a logarithm is taken."""


class FedLawOptions(Options, frozen=True):
    """Options of `fedlaw`."""

    lr: Annotated[
        Positive, Meta(description="Learning rate; the authors' is 0.01 for CIFAR-10 and 0.005 elsewhere.")
    ] = 0.01
    epochs: Annotated[int, Meta(ge=0, description="Times that every batch is taken.")] = 20
    step_size: Annotated[Count, Meta(description="Epochs after which the rate is multiplied by `decay`.")] = 20
    decay: Annotated[Positive, Meta(description="What the rate is multiplied by.")] = 0.5


def fedlaw(cohort: Cohort, options: FedLawOptions) -> Aggregate:
    """Learn on the coordinator's labelled clips how much each client counts, and by how much the model shrinks.

    w = γ Σ λ_k w_k, λ = softmax(x), γ = e^y, from x = ln p_k and y = 0, by Adam (β 0.5 and 0.999) on the cross-entropy
    of w: dL/dx_k = γ λ_k (s_k - Σ λ s), dL/dy = γ Σ λ s, s_k = ⟨∇L(w), w_k⟩.

    Parameters
    ----------
    cohort
        K updates with `extras.objectives`.

    Returns
    -------
    Aggregate
        `weights` (P,); `share` γ λ_k, which sum to γ; `score` (K,) λ. w^t with a flag where nobody counts.

    Raises
    ------
    CohortError
        There are no labelled clips.

    Examples
    --------
    >>> from auricle_learning import average
    >>> from auricle_learning.aggregation.extras import Extras
    >>> bowl = lambda w: (float(w @ w) / 2, w)  # least at 0
    >>> average([[1.0], [3.0]], method="fedlaw", extras=Extras(objectives=(bowl,)), epochs=200).round(1)
    array([1.2])
    """
    if not cohort.ids:
        return unchanged(cohort)
    if not cohort.extras.objectives:
        raise CohortError(NO_CLIPS)
    share = sample_share(cohort.samples, np.ones((len(cohort.ids), 1), np.bool_))[:, 0]
    first = np.append(np.log(np.maximum(share, LEAST)), 0.0)
    rates = [options.lr * options.decay ** (epoch // options.step_size) for epoch in range(options.epochs)]
    learned = adam(first, rates, [_of(cohort, objective) for objective in cohort.extras.objectives])
    weights = _combined(cohort, learned)
    if not (np.isfinite(learned).all() and np.isfinite(weights.astype(cohort.start.dtype)).all()):
        return unchanged(cohort, DIVERGED)
    mixed, shrunk = _mixture(learned)
    return of_clients(cohort, weights, shrunk * mixed, score=mixed, score_of=SCORE)


def adam(
    values: Float64Array, rates: Sequence[float], gradients: Sequence[Callable[[Float64Array], Float64Array]]
) -> Float64Array:
    """Adam with bias correction as PyTorch has it: for each rate one step on each of the gradients, in order."""
    m, v, count = np.zeros_like(values), np.zeros_like(values), 0
    for rate in rates:
        for gradient in gradients:
            slope, count = gradient(values), count + 1
            m = BETA1 * m + (1 - BETA1) * slope
            v = BETA2 * v + (1 - BETA2) * np.square(slope)
            values = values - rate * (m / (1 - BETA1**count)) / (np.sqrt(v / (1 - BETA2**count)) + EPSILON)
    return values


def _mixture(values: Float64Array) -> tuple[Float64Array, float]:
    """λ (K,) and γ of x and y."""
    exponents = np.exp(values[:-1] - values[:-1].max())
    return exponents / exponents.sum(), float(np.exp(values[-1]))


def _combined(cohort: Cohort, values: Float64Array) -> Float64Array:
    mixed, shrunk = _mixture(values)
    return cohort.matrix.weighted_sum((shrunk * mixed)[:, None], [(slice(0, cohort.start.size),)])


def _of(cohort: Cohort, objective: Objective) -> Callable[[Float64Array], Float64Array]:
    """The gradient (K + 1,) with respect to x and y of a loss of the model."""

    def gradient(values: Float64Array) -> Float64Array:
        mixed, shrunk = _mixture(values)
        slope = np.asarray(objective(_combined(cohort, values))[1], np.float64)
        along = products_with(cohort, slope) + float(slope @ cohort.start)
        mean = float(mixed @ along)
        return np.append(shrunk * mixed * (along - mean), shrunk * mean)

    return gradient
