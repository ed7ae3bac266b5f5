"""The step that all rules share: from who counts how much in which layer to the next model."""

from __future__ import annotations

import numpy as np

from auricle_cloud.cohort import NO_UPDATE, Aggregate, BoolArray, Cohort, Float64Array, FloatArray


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
    for column, layer in enumerate(cohort.layers):
        counting = np.flatnonzero(share[:, column])
        if not counting.size:
            continue
        for span in layer.slices:
            total = np.zeros(span.stop - span.start)
            for k in counting:
                total += share[k, column] * cohort.weights[k, span].astype(np.float64)
            result[span] = total
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


def unchanged(cohort: Cohort, flag: str = NO_UPDATE) -> Aggregate:
    """Keep w^t and say why: nobody counts in any layer."""
    shape = (len(cohort.ids), len(cohort.layers))
    return Aggregate(
        weights=cohort.start.copy(),
        ids=cohort.ids,
        layers=tuple(layer.name for layer in cohort.layers),
        kept=np.zeros(shape, np.bool_),
        share=np.zeros(shape),
        dropped=cohort.dropped,
        flag=flag,
    )
