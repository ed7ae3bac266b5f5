"""The server's half of FedDyn (Acar et al. 2021, https://arxiv.org/abs/2111.04263)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import numpy as np

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.options import check_number
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.scaffold import fleet_size
from auricle_learning.aggregation.rules.weighting import check_weighting, client_share, moved, of_clients

NAME = "feddyn"
CLIP = 10.0
"""Largest norm of a gradient on the clients, where the plan has no limit; the authors'."""


def check_feddyn(*, alpha: float, weighting: str, clip: float, limit: str) -> None:
    """Refuse an α that is not a positive number, or a weighting that does not exist.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_number("alpha", alpha, above=True)
    check_weighting(weighting=weighting, clip=clip, limit=limit)


def feddyn(
    cohort: Cohort, *, alpha: float = 0.01, weighting: str = "uniform", clip: float = 5.0, limit: str = "clamp"
) -> Aggregate:
    """Average the clients and take off what they drift by, so that their stationary points become the fleet's.

    h ← h - (α/N) Σ_S (θ_i - θ^t), θ ← mean_S θ_i - h/α. Clients minimise L - ⟨g_i, θ⟩ + α/2 ‖θ - θ^t‖² and then set
    g_i ← g_i - α (θ_i - θ^t). The model that is broadcast, and reported, is θ; the authors' code reports the mean.

    Parameters
    ----------
    cohort
        K updates with `extras.clients` (N) and in `extras.state` the sum h.
    alpha
        α, greater than 0, the same as on the clients.
    weighting, clip, limit
        "uniform", "samples" or "fedvsa" for the mean of θ_i; `clip` and `limit` as in `fedvsa`.

    Returns
    -------
    Aggregate
        `weights` (P,), `share` of the mean, and h in `state`.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_feddyn(alpha=alpha, weighting=weighting, clip=clip, limit=limit)
    share = client_share(cohort, weighting, clip=clip, limit=limit) if cohort.ids else np.zeros(0)
    if not share.any():
        return replace(unchanged(cohort, NO_LOSS) if cohort.ids else unchanged(cohort), state=cohort.extras.state)
    kept = cohort.extras.kept_by(NAME)
    drift = moved(cohort, np.ones(share.size)) - cohort.start  # Σ_S (θ_i - θ^t)
    h = kept.array("h", cohort.start.size) - alpha / fleet_size(cohort) * drift
    return of_clients(cohort, moved(cohort, share) - h / alpha, share, state=RuleState(NAME, {"h": h}, kept.step + 1))


def feddyn_plan(plan: Plan, options: Mapping[str, object]) -> Plan:
    """Clients train with the pull of strength α towards θ^t and with their linear term."""
    return msgspec.structs.replace(plan, mu=float(str(options["alpha"])), memory=NAME, clip=plan.clip or CLIP)
