"""SCAFFOLD: control variates (Karimireddy et al. 2020, https://arxiv.org/abs/1910.06378), Algorithm 1, option II.

A client steps by y ← y - η (g(y) - c_i + c) and then sets c_i⁺ = c_i - c + (x - y_i) / (K_i η), zeros at first. The
server sets x ← x + η_g mean_S (y_i - x) and c ← c + (1/N) Σ_S (c_i⁺ - c_i).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.options import Part, Positive
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.client_steps import fleet_size, mean_gradients, normalised_steps, steps_of
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.aggregation.rules.weighting import WeightedOptions, Weighting, client_share, moved, of_clients
from auricle_learning.methods.method import JobChanges, Kept, Method, Needs, Received, Sent, Trained, Vector

NAME = "scaffold"


class ScaffoldOptions(WeightedOptions, frozen=True):
    """Options of `scaffold`; what is weighed is the mean of y_i."""

    lr: Annotated[Positive, Meta(description="η_g.")] = 1.0
    momentum: Annotated[
        Part, Meta(description="ρ of the clients' SGD: K_i then are the steps as FedNova normalises them.")
    ] = 0.0
    weighting: Weighting = "uniform"


def scaffold(cohort: Cohort, options: ScaffoldOptions) -> Aggregate:
    """Average the clients and move the control variate, which takes their drift out of the next round's steps.

    x ← x + η_g mean_S (y_i - x), c ← c + (1/N) Σ_S (c_i⁺ - c_i) with c_i⁺ - c_i = (x - y_i) / (K_i η) - c (option II).
    Clients step by -η (g(y) - c_i + c). The difference follows from a client's update and its number of steps, so no
    client has to send it.

    Parameters
    ----------
    cohort
        K updates with `extras.steps`, `extras.rate` (η), `extras.clients` (N) and in `extras.state` the variate c.

    Returns
    -------
    Aggregate
        `weights` (P,), and c in `state`.

    Raises
    ------
    CohortError
        Steps or rate are not known.
    """
    share = client_share(cohort, options) if cohort.ids else np.zeros(0)
    if not share.any():
        return replace(unchanged(cohort, NO_LOSS) if cohort.ids else unchanged(cohort), state=cohort.extras.state)
    kept = cohort.extras.kept_by(NAME)
    c = kept.array("c", cohort.start.size)
    steps = normalised_steps(steps_of(cohort), momentum=options.momentum)
    stepped = steps > 0
    gradients = mean_gradients(cohort, steps)
    state = RuleState(NAME, {"c": c + (gradients - stepped.sum() * c) / fleet_size(cohort)}, kept.step + 1)
    return of_clients(cohort, moved(cohort, options.lr * share), options.lr * share, state=state)


def before(received: Received, kept: Kept) -> JobChanges:
    """Clients add c - c_i to each gradient."""
    return JobChanges(terms=("drift",), vectors={"linear": received.vector("c") - received.own(kept, "c")})


def after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Clients keep c_i⁺ = c_i - c + (x - y_i) / (K_i η), and c_i where they took no step."""
    received = trained.received
    own, momentum = received.own(kept, "c"), received.options(ScaffoldOptions).momentum
    steps = normalised_steps(np.array([trained.steps], np.float64), momentum=momentum)[0]
    if not steps > 0:
        return {}, {"c": own}
    moved_by = (received.plugin.astype(np.float64) - trained.plugin) / (steps * received.plan.rate)
    return {}, {"c": (own - received.vector("c") + moved_by).astype(np.float32)}


SCAFFOLD = Method(
    Rule(
        NAME, scaffold, ScaffoldOptions(), weight="uniform", needs=("server-state", "steps", "device-half"), step=True
    ),
    Needs(down=(Vector("c"),)),
    before,
    after,
)
