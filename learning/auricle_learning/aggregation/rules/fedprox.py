"""Federated averaging of clients that are held to the received model (FedProx, https://arxiv.org/abs/1812.06127)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import check_number
from auricle_learning.aggregation.rules.fedavg import check_fedavg, fedavg


def check_fedprox(*, mu: float, weighting: str) -> None:
    """Refuse a pull that is not a number from 0 to 100, or a weighting that FedAvg does not know.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_number("mu", mu, below=100 + 1e-9)
    check_fedavg(weighting=weighting)


def fedprox(cohort: Cohort, *, mu: float = 0.01, weighting: str = "samples") -> Aggregate:
    """Average as FedAvg does; the clients' loss has (μ/2) ‖w - w^t‖² added, the gradient μ (w - w^t).

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,).
    mu
        μ of the clients; the average does not use it.
    weighting
        As in `fedavg`: we weigh by samples, as each of the papers does.

    Returns
    -------
    Aggregate
        As of `fedavg`.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_fedprox(mu=mu, weighting=weighting)
    return fedavg(cohort, weighting=weighting)


def fedprox_plan(plan: Plan, options: Mapping[str, object]) -> Plan:
    """Clients train with the pull of strength μ towards w^t."""
    return msgspec.structs.replace(plan, mu=float(str(options["mu"])))
