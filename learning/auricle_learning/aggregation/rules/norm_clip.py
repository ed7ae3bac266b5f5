"""Averaging of updates whose norm is bounded (Sun et al., https://arxiv.org/abs/1911.07963)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import Options, Positive
from auricle_learning.aggregation.rules.average import sample_share, unchanged

SCORE = "norm of the update"


class NormClipOptions(Options, frozen=True):
    """Options of `norm_clip`."""

    bound: Annotated[
        Positive | None,
        Meta(description="C, in the unit of the weights. None for the median of this cohort's norms."),
    ] = None


def norm_clip(cohort: Cohort, options: NormClipOptions) -> Aggregate:
    """Average the updates by samples after shortening those that are longer than a bound.

    Δ_k = w_k - w^t, s_k = min(1, C / ||Δ_k||), w = w^t + Σ_k p_k s_k Δ_k with p_k = n_k / Σ_j n_j.

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,).

    Returns
    -------
    Aggregate
        `weights` (P,); `share` p_k s_k, what a column lacks to 1 is w^t; `score` (K,) the norms before. w^t with a
        flag where the cohort is empty.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[3.0, 4.0], [0.0, 0.0]], method="norm-clip", bound=1.0)
    array([0.3, 0.4])
    """
    if not cohort.ids:
        return unchanged(cohort)
    whole = [(slice(0, cohort.start.size),)]
    norms = cohort.matrix.layer_norms(whole, centre=cohort.start.astype(np.float64))[:, 0]
    limit = float(np.median(norms)) if options.bound is None else options.bound
    longer = norms > limit
    scale = np.where(longer, limit / np.where(longer, norms, 1.0), 1.0)
    weight = sample_share(cohort.samples, np.ones((norms.size, 1), np.bool_))[:, 0]
    rest = float((weight * (1.0 - scale)).sum())
    share = weight * scale
    total = cohort.matrix.weighted_sum(share[:, None], whole)
    if rest:
        total += rest * cohort.start
    by_layer = np.repeat(share[:, None], len(cohort.layers), axis=1)
    return Aggregate(
        weights=total.astype(cohort.start.dtype),
        ids=cohort.ids,
        layers=cohort.names,
        kept=np.ones(by_layer.shape, np.bool_),
        share=by_layer,
        dropped=cohort.dropped,
        score=norms,
        score_of=SCORE,
    )
