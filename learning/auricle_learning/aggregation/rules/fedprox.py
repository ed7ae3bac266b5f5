"""Federated averaging of clients that are held to the received model (FedProx, https://arxiv.org/abs/1812.06127)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import check_number
from auricle_learning.aggregation.rules.average import average, unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import check_weighting, client_share, of_clients


def check_fedprox(*, mu: float, weighting: str, clip: float, limit: str) -> None:
    """Refuse a pull that is not a number from 0 to 100, or a weighting that does not exist.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_number("mu", mu, below=100 + 1e-9)
    check_weighting(weighting=weighting, clip=clip, limit=limit)


def fedprox(
    cohort: Cohort, *, mu: float = 0.01, weighting: str = "samples", clip: float = 5.0, limit: str = "clamp"
) -> Aggregate:
    """Average as FedAvg does; the clients' loss has (μ/2) ‖w - w^t‖² added, the gradient μ (w - w^t).

    w = Σ_k p_k w_k with p_k = n_k / Σ_j n_j, or with the softmax of the limited losses (FedVSA eq. 8, Table 9).

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,).
    mu
        μ of the clients; the average does not use it.
    weighting, clip, limit
        "samples", as each of the papers has it, "uniform" or "fedvsa"; `clip` and `limit` as in `fedvsa`.

    Returns
    -------
    Aggregate
        `weights` (P,), `share` p_k; w^t with a flag where nobody counts.

    Raises
    ------
    SettingsError
        An option is not allowed.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [3.0]], samples=[30, 10], method="fedprox")
    array([1.5])
    """
    check_fedprox(mu=mu, weighting=weighting, clip=clip, limit=limit)
    if not cohort.ids:
        return unchanged(cohort)
    share = client_share(cohort, weighting, clip=clip, limit=limit)
    if not share.any():
        return unchanged(cohort, NO_LOSS)
    by_layer = np.repeat(share[:, None], len(cohort.layers), axis=1)
    return of_clients(cohort, average(cohort, by_layer), share)


def fedprox_plan(plan: Plan, options: Mapping[str, object]) -> Plan:
    """Clients train with the pull of strength μ towards w^t."""
    return msgspec.structs.replace(plan, mu=float(str(options["mu"])))
