"""FedDyn: dynamic regularisation (Acar et al. 2021, https://arxiv.org/abs/2111.04263), Algorithm 1.

A client minimises L_i(θ) - ⟨g_i, θ⟩ + α/2 ‖θ - θ^t‖² and then sets g_i ← g_i - α (θ_i - θ^t), zeros at first. The
server sets h ← h - (α/N) Σ_S (θ_i - θ^t) and θ ← mean_S θ_i - h/α.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.options import Positive
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.client_steps import fleet_size
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.aggregation.rules.weighting import WeightedOptions, Weighting, client_share, moved, of_clients
from auricle_learning.methods.method import JobChanges, Kept, Method, Received, Sent, Trained

NAME = "feddyn"
CLIP = 10.0
"""Largest norm of a gradient on the clients, where the plan has no limit; the authors'."""


class FedDynOptions(WeightedOptions, frozen=True):
    """Options of `feddyn`; what is weighed is the mean of θ_i."""

    alpha: Annotated[Positive, Meta(description="α, the same as on the clients.")] = 0.01
    weighting: Weighting = "uniform"


def feddyn(cohort: Cohort, options: FedDynOptions) -> Aggregate:
    """Average the clients and take off what they drift by, so that their stationary points become the fleet's.

    h ← h - (α/N) Σ_S (θ_i - θ^t), θ ← mean_S θ_i - h/α. Clients minimise L - ⟨g_i, θ⟩ + α/2 ‖θ - θ^t‖² and then set
    g_i ← g_i - α (θ_i - θ^t). The model that is broadcast, and reported, is θ; the authors' code reports the mean.

    Parameters
    ----------
    cohort
        K updates with `extras.clients` (N) and in `extras.state` the sum h.

    Returns
    -------
    Aggregate
        `weights` (P,), `share` of the mean, and h in `state`.
    """
    share = client_share(cohort, options) if cohort.ids else np.zeros(0)
    if not share.any():
        return replace(unchanged(cohort, NO_LOSS) if cohort.ids else unchanged(cohort), state=cohort.extras.state)
    kept = cohort.extras.kept_by(NAME)
    drift = moved(cohort, np.ones(share.size)) - cohort.start  # Σ_S (θ_i - θ^t)
    h = kept.array("h", cohort.start.size) - options.alpha / fleet_size(cohort) * drift
    return of_clients(
        cohort, moved(cohort, share) - h / options.alpha, share, state=RuleState(NAME, {"h": h}, kept.step + 1)
    )


def feddyn_plan(plan: Plan, options: FedDynOptions) -> Plan:
    """Clients train with the pull of strength α towards θ^t, and with a limit to their gradients."""
    return msgspec.structs.replace(plan, mu=options.alpha, clip=plan.clip or CLIP)


def before(received: Received, kept: Kept) -> JobChanges:
    """Clients add the gradient of their linear term, -g_i; the pull towards θ^t is the plan's."""
    return JobChanges(vectors={"linear": -received.own(kept, "g")})


def after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Clients keep g_i ← g_i - α (θ_i - θ^t)."""
    received = trained.received
    moved_by = received.plan.mu * (trained.plugin.astype(np.float64) - received.plugin)
    return {}, {"g": (received.own(kept, "g") - moved_by).astype(np.float32)}


FEDDYN = Method(
    Rule(
        NAME,
        feddyn,
        FedDynOptions(),
        weight="uniform",
        needs=("server-state", "device-half"),
        plan=feddyn_plan,
        step=True,
    ),
    before=before,
    after=after,
)
