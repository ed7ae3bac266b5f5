"""The server's half of SCAFFOLD (Karimireddy et al. 2020, https://arxiv.org/abs/1910.06378)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auricle_learning.aggregation.cohort import Aggregate, Cohort, CohortError, Float64Array
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.options import check_number
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.fednova import normalised_steps, steps_of
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import check_weighting, client_share, moved, of_clients

NAME = "scaffold"


def check_scaffold(*, lr: float, momentum: float, weighting: str, clip: float, limit: str) -> None:
    """Refuse steps that could not be taken.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_number("lr", lr, above=True)
    check_number("momentum", momentum, below=1.0)
    check_weighting(weighting=weighting, clip=clip, limit=limit)


def scaffold(
    cohort: Cohort,
    *,
    lr: float = 1.0,
    momentum: float = 0.0,
    weighting: str = "uniform",
    clip: float = 5.0,
    limit: str = "clamp",
) -> Aggregate:
    """Average the clients and move the control variate, which takes their drift out of the next round's steps.

    x ← x + η_g mean_S (y_i - x), c ← c + (1/N) Σ_S (c_i⁺ - c_i) with c_i⁺ - c_i = (x - y_i) / (K_i η) - c (option II).
    Clients step by -η (g(y) - c_i + c). The difference follows from a client's update and its number of steps, so no
    client has to send it.

    Parameters
    ----------
    cohort
        K updates with `extras.steps`, `extras.rate` (η), `extras.clients` (N) and in `extras.state` the variate c.
    lr
        η_g.
    momentum
        ρ of the clients' SGD: K_i then are the steps as FedNova normalises them.
    weighting, clip, limit
        "uniform", "samples" or "fedvsa" for the mean of y_i; `clip` and `limit` as in `fedvsa`.

    Returns
    -------
    Aggregate
        `weights` (P,), and c in `state`.

    Raises
    ------
    SettingsError
        An option is not allowed.
    CohortError
        Steps or rate are not known.
    """
    check_scaffold(lr=lr, momentum=momentum, weighting=weighting, clip=clip, limit=limit)
    share = client_share(cohort, weighting, clip=clip, limit=limit) if cohort.ids else np.zeros(0)
    if not share.any():
        return replace(unchanged(cohort, NO_LOSS) if cohort.ids else unchanged(cohort), state=cohort.extras.state)
    kept = cohort.extras.kept_by(NAME)
    c = kept.array("c", cohort.start.size)
    steps = normalised_steps(steps_of(cohort), momentum=momentum)
    stepped = steps > 0
    gradients = mean_gradients(cohort, steps)
    state = RuleState(NAME, {"c": c + (gradients - stepped.sum() * c) / fleet_size(cohort)}, kept.step + 1)
    return of_clients(cohort, moved(cohort, lr * share), lr * share, state=state)


def mean_gradients(cohort: Cohort, steps: Float64Array, weight: Float64Array | None = None) -> Float64Array:
    """Σ_k a_k (w^t - w_k) / (K_k η) (P,), the mean gradients of who took steps; a_k = 1 without `weight` (K,).

    Raises
    ------
    CohortError
        The clients' learning rate is not known.
    """
    rate = cohort.extras.rate
    if rate is None or not rate > 0:
        raise CohortError("the rule needs the clients' learning rate, greater than 0.")
    stepped = steps > 0
    factor = np.where(stepped, 1.0 if weight is None else weight, 0.0) / (np.where(stepped, steps, 1.0) * rate)
    return cohort.start.astype(np.float64) - moved(cohort, factor)


def fleet_size(cohort: Cohort) -> int:
    """N, at least the clients of the round."""
    return max(cohort.extras.clients or 0, len(cohort.ids))
