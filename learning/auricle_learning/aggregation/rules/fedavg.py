"""Federated averaging (McMahan et al., https://arxiv.org/abs/1602.05629)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import Options
from auricle_learning.aggregation.rules.average import average, sample_share, unchanged

BySize = Annotated[
    Literal["samples", "uniform"],
    Meta(description='"samples", or "uniform" for p_k = 1/K. Where nobody has samples both are uniform.'),
]


class FedAvgOptions(Options, frozen=True):
    """Options of `fedavg`, and of all methods that average as it does."""

    weighting: BySize = "samples"


def fedavg(cohort: Cohort, options: FedAvgOptions) -> Aggregate:
    """Average the models, w = Σ_k p_k w_k with p_k = n_k / Σ_j n_j (FedMLAC eq. 3, FedVSA eq. 5).

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,).

    Returns
    -------
    Aggregate
        `weights` (P,); w^t with a flag where the cohort is empty.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [3.0]], samples=[30, 10], method="fedavg")
    array([1.5])
    """
    if not cohort.ids:
        return unchanged(cohort)
    kept = np.ones((len(cohort.ids), len(cohort.layers)), np.bool_)
    share = sample_share(cohort.samples if options.weighting == "samples" else np.ones_like(cohort.samples), kept)
    return Aggregate(
        weights=average(cohort, share),
        ids=cohort.ids,
        layers=cohort.names,
        kept=kept,
        share=share,
        dropped=cohort.dropped,
    )
