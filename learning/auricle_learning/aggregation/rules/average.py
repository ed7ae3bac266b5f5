"""What rules share: from who counts how much in which layer to the next model, and what makes decisions exact."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from auricle_learning.aggregation.cohort import NO_UPDATE, Aggregate, BoolArray, Cohort, Float64Array, FloatArray

FLOOR_SLACK = 1e-9
"""Added before a floor, because 0.29 * 100 is 28.999… in binary (A12)."""


def average(cohort: Cohort, share: Float64Array) -> FloatArray:
    """Average each layer with its own client weights: w_l = Σ_k share[k,l] w[k,l].

    The sum runs in float64 and in the order of the ids, so the same uploads give the same bytes in any order of
    arrival.

    Parameters
    ----------
    cohort
        K updates over P values in L layers.
    share
        (K, L) weights of the clients, each column summing to 1, or to 0 where the layer shall keep w^t.

    Returns
    -------
    array (P,)
        In the dtype of w^t.
    """
    result: FloatArray = cohort.start.copy()
    total = cohort.matrix.weighted_sum(share, cohort.spans)
    for layer, counts in zip(cohort.layers, (share != 0).any(axis=0).tolist(), strict=True):
        if counts:
            for span in layer.slices:
                result[span] = total[span]
    return result


def sample_share(samples: Float64Array, kept: BoolArray) -> Float64Array:
    """Weigh the kept clients of each layer by samples, or equally where none of them has any (A15).

    Parameters
    ----------
    samples
        (K,) n_k.
    kept
        (K, L) who counts, at least one in each column.

    Returns
    -------
    array (K, L)
        n_k / Σ n over the kept clients of each column, 0 for the others.
    """
    share = np.zeros(kept.shape)
    for column in range(kept.shape[1]):
        chosen = np.flatnonzero(kept[:, column])
        counts = samples[chosen]
        total = counts.sum()
        share[chosen, column] = counts / total if total > 0 else 1.0 / chosen.size
    return share


def unchanged(
    cohort: Cohort, flag: str = NO_UPDATE, *, score: Float64Array | None = None, score_of: str | None = None
) -> Aggregate:
    """Keep w^t and say why: nobody counts in any layer; the scores (K,) of a rule that made some stay."""
    shape = (len(cohort.ids), len(cohort.layers))
    return Aggregate(
        weights=cohort.start.copy(),
        ids=cohort.ids,
        layers=cohort.names,
        kept=np.zeros(shape, np.bool_),
        share=np.zeros(shape),
        dropped=cohort.dropped,
        flag=flag,
        score=score,
        score_of=score_of,
    )


def fraction_of(fraction: float, count: int) -> int:
    """Return ⌊fraction · count⌋, forgiving what is not exact in binary (A12)."""
    return math.floor(fraction * count + FLOOR_SLACK)


def ascending(values: Float64Array) -> NDArray[np.intp]:
    """Rank values from the least to the largest: those equal in ten significant digits by their place."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    with np.errstate(invalid="ignore"):
        near = np.flatnonzero(~(np.diff(ranked) > 2e-9 * np.abs(ranked[1:])))
    if not near.size:
        return order
    tied = order[np.union1d(near, near + 1)]  # those alone are written out: it takes its time
    keys = values.copy()
    keys[tied] = ten_digits(values[tied])
    return np.argsort(keys, kind="stable")


def ten_digits(values: Float64Array) -> Float64Array:
    """Round to ten significant digits, so that the order of a sum cannot decide who is kept."""
    return np.array([float(f"{value:.9e}") for value in values.tolist()])
