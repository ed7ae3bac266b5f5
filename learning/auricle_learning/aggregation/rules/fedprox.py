"""Federated averaging of clients that are held to the received model (FedProx, https://arxiv.org/abs/1812.06127)."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.average import average, unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import WeightedOptions, client_share, of_clients


class FedProxOptions(WeightedOptions, frozen=True):
    """Options of `fedprox`."""

    mu: Annotated[float, Meta(ge=0, le=100, description="μ of the clients; the average does not use it.")] = 0.01


def fedprox(cohort: Cohort, options: FedProxOptions) -> Aggregate:
    """Average as FedAvg does; the clients' loss has (μ/2) ‖w - w^t‖² added, the gradient μ (w - w^t).

    w = Σ_k p_k w_k with p_k = n_k / Σ_j n_j, or with the softmax of the limited losses (FedVSA eq. 8, Table 9).

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,).

    Returns
    -------
    Aggregate
        `weights` (P,), `share` p_k; w^t with a flag where nobody counts.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [3.0]], samples=[30, 10], method="fedprox")
    array([1.5])
    """
    if not cohort.ids:
        return unchanged(cohort)
    share = client_share(cohort, options)
    if not share.any():
        return unchanged(cohort, NO_LOSS)
    by_layer = np.repeat(share[:, None], len(cohort.layers), axis=1)
    return of_clients(cohort, average(cohort, by_layer), share)


def fedprox_plan(plan: Plan, options: FedProxOptions) -> Plan:
    """Clients train with the pull of strength μ towards w^t."""
    return msgspec.structs.replace(plan, mu=options.mu)
