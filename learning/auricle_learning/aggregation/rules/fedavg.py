"""Federated averaging (McMahan et al., https://arxiv.org/abs/1602.05629)."""

from __future__ import annotations

import numpy as np

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import check_choice
from auricle_learning.aggregation.rules.average import average, sample_share, unchanged


def check_fedavg(*, weighting: str) -> None:
    """Refuse a weighting that FedAvg does not know.

    Raises
    ------
    SettingsError
        `weighting` is neither "samples" nor "uniform".
    """
    check_choice("weighting", weighting, ("samples", "uniform"))


def fedavg(cohort: Cohort, *, weighting: str = "samples") -> Aggregate:
    """Average the models, w = Σ_k p_k w_k with p_k = n_k / Σ_j n_j (FedMLAC eq. 3, FedVSA eq. 5).

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,).
    weighting
        "samples", or "uniform" for p_k = 1/K. Where nobody has samples both are uniform.

    Returns
    -------
    Aggregate
        `weights` (P,); w^t with a flag where the cohort is empty.

    Raises
    ------
    SettingsError
        The weighting does not exist.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [3.0]], samples=[30, 10], method="fedavg")
    array([1.5])
    """
    check_fedavg(weighting=weighting)
    if not cohort.ids:
        return unchanged(cohort)
    kept = np.ones((len(cohort.ids), len(cohort.layers)), np.bool_)
    share = sample_share(cohort.samples if weighting == "samples" else np.ones_like(cohort.samples), kept)
    return Aggregate(
        weights=average(cohort, share),
        ids=cohort.ids,
        layers=cohort.names,
        kept=kept,
        share=share,
        dropped=cohort.dropped,
    )
