"""The geometric median by smoothed Weiszfeld steps: RFA (Pillutla et al., https://arxiv.org/abs/1912.13445)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort, Float64Array
from auricle_learning.aggregation.compute.distances import NEAR
from auricle_learning.aggregation.options import Count, NotNegative, Positive
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import WeightedOptions, client_share

SCORE = "distance from the geometric median"
FEW = 128
"""Clients up to which measuring all pairs once costs less than measuring all clients in every step."""
STILL = 0.1
"""Relative change of the middle distance above which the point still moves, whatever f says."""


class GeometricMedianOptions(WeightedOptions, frozen=True):
    """Options of `geometric_median`; a_k are the weights of `weighting`."""

    nu: Annotated[
        Positive,
        Meta(description="ν, the distance below which a client is not weighed up further, in the unit of the weights."),
    ] = 1e-6
    ftol: Annotated[NotNegative, Meta(description="Relative change of f at which to stop; 0 to take every step.")] = (
        1e-6
    )
    iterations: Annotated[
        Count, Meta(description="At most so many steps. The authors' code takes 4, with ν = 1e-5.")
    ] = 100


def geometric_median(cohort: Cohort, options: GeometricMedianOptions) -> Aggregate:
    """Find the point with the least weighted sum of distances, f(z) = Σ_k a_k ||z - w_k||.

    z starts as Σ a_k w_k and becomes Σ b_k w_k with b_k ∝ a_k / max(ν, ||z - w_k||) until |Δf| ≤ ftol · f. A client far
    enough away makes all of f, and could so end the steps at once: they go on while the middle one of the distances
    still changes by more than a tenth. This takes an attacker more than a million times as far away as the others.

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P).

    Returns
    -------
    Aggregate
        `weights` (P,), `share` the last b, `score` (K,) the distance of each client from the result. A warning where
        the steps ran out. w^t with a flag where nobody counts.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [50.0, 50.0]], method="geometric-median").round(2)
    array([0.5, 0.5])
    """
    if not cohort.ids:
        return unchanged(cohort)
    start = client_share(cohort, options)
    if not start.any():
        return unchanged(cohort, NO_LOSS)
    measure = _measure(cohort)
    nu, share, settled = options.nu, start, False
    distances = measure(share)
    for _ in range(options.iterations):
        before, middle = float(start @ distances), _middle(distances, nu)
        share = start / np.maximum(nu, distances)
        share /= share.sum()
        distances = measure(share)
        now = float(start @ distances)
        settled = abs(before - now) <= options.ftol * now and abs(middle - _middle(distances, nu)) <= STILL * middle
        if settled:
            break
    by_layer = np.repeat(share[:, None], len(cohort.layers), axis=1)
    return Aggregate(
        weights=cohort.matrix.weighted_sum(share[:, None], _whole(cohort)).astype(cohort.start.dtype),
        ids=cohort.ids,
        layers=cohort.names,
        kept=by_layer > 0,
        share=by_layer,
        dropped=cohort.dropped,
        warnings=() if settled else (f"the geometric median was still moving after {options.iterations} steps.",),
        score=distances,
        score_of=SCORE,
    )


def _whole(cohort: Cohort) -> list[tuple[slice, ...]]:
    return [(slice(0, cohort.start.size),)]


def _measure(cohort: Cohort) -> Callable[[Float64Array], Float64Array]:
    """Give what measures ||Σ_j b_j w_j - w_k|| (K,) for b that sum to 1.

    With few clients from D_kj = ||w_k - w_j||², as Σ_j b_j D_kj - ½ Σ_ij b_i b_j D_ij is its square, unless that would
    cancel digits: a client is nearer to the point than the clients are to each other by a factor of 10.
    """

    def directly(share: Float64Array) -> Float64Array:
        return cohort.matrix.layer_norms(_whole(cohort), share=share)[:, 0]

    if len(cohort.ids) > FEW:
        return directly
    squares = cohort.matrix.squared_distances()

    def by_pairs(share: Float64Array) -> Float64Array:
        with np.errstate(over="ignore", invalid="ignore"):
            spread = np.einsum("kj,j->k", squares, share)
            found = spread - np.einsum("k,k->", share, spread) / 2
            whole = (found > NEAR * spread).all()
        return np.sqrt(found) if whole else directly(share)

    return by_pairs


def _middle(distances: Float64Array, nu: float) -> float:
    return max(nu, float(np.median(distances)))
