"""Normalised averaging, FedNova (Wang et al. 2020, https://arxiv.org/abs/2007.07481)."""

from __future__ import annotations

import numpy as np

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Aggregate, Cohort, CohortError
from auricle_learning.aggregation.options import check_choice, check_number
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.client_steps import normalised_steps, steps_of
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import check_weighting, client_share, moved, of_clients

SCORE = "local steps, normalised"
NO_STEPS = "no client took a step: the model is unchanged"


def check_fednova(
    *, momentum: float, mu: float, lr: float | None, tau_eff: str, weighting: str, clip: float, limit: str
) -> None:
    """Refuse constants outside their range, and a proximal term without the clients' learning rate.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_number("momentum", momentum, below=1.0)
    check_number("mu", mu)
    if lr is not None:
        check_number("lr", lr, above=True)
    if mu and momentum:
        raise SettingsError("momentum and mu cannot both be above 0: leave one of them out.")
    check_choice("tau_eff", tau_eff, ("normalised", "steps"))
    check_weighting(weighting=weighting, clip=clip, limit=limit)


def fednova(
    cohort: Cohort,
    *,
    momentum: float = 0.0,
    mu: float = 0.0,
    lr: float | None = None,
    tau_eff: str = "normalised",
    weighting: str = "samples",
    clip: float = 5.0,
    limit: str = "clamp",
) -> Aggregate:
    """Average the clients' directions rather than their distances, so that more local steps do not count for more.

    x ← x - τ_eff Σ p_i (x - y_i) / a_i, τ_eff = Σ p_i a_i, with a_i = τ_i for τ_i steps of plain SGD; see
    `normalised_steps`. Who took no step is left out. Equal a_i give FedAvg.

    Parameters
    ----------
    cohort
        K updates with `extras.steps` (K,); with `mu` also `extras.rate`, unless `lr` is given.
    momentum, mu, lr
        ρ, μ and η of the clients' SGD.
    tau_eff
        "normalised", or "steps" for τ_eff = Σ p_i τ_i, as the authors' code has it with a proximal term.
    weighting, clip, limit
        p_i: "samples", "uniform" or "fedvsa"; `clip` and `limit` as in `fedvsa`.

    Returns
    -------
    Aggregate
        `weights` (P,); `share` τ_eff p_i / a_i, what a column lacks to 1 is w^t; `score` (K,) a_i. w^t with a flag
        where nobody counts.

    Raises
    ------
    SettingsError
        An option is not allowed.
    CohortError
        The cohort has no steps, or no rate where one is needed.

    Examples
    --------
    >>> import numpy as np
    >>> from auricle_learning import average
    >>> from auricle_learning.aggregation.extras import Extras
    >>> average([[1.0], [4.0]], method="fednova", extras=Extras(steps=np.array([1.0, 4.0])))
    array([2.5])
    """
    check_fednova(momentum=momentum, mu=mu, lr=lr, tau_eff=tau_eff, weighting=weighting, clip=clip, limit=limit)
    if not cohort.ids:
        return unchanged(cohort)
    steps = steps_of(cohort)
    rate = lr if lr is not None else cohort.extras.rate
    if mu and rate is None:
        raise CohortError("FedNova with mu needs the clients' learning rate: name it in lr.")
    normal = normalised_steps(steps, momentum=momentum, shrink=mu * (rate or 0.0))
    if not (normal > 0).any():
        return unchanged(cohort, NO_STEPS)
    share = client_share(cohort, weighting, clip=clip, limit=limit, kept=normal > 0)
    if not share.any():
        return unchanged(cohort, NO_LOSS)
    together = float(share @ (normal if tau_eff == "normalised" else steps))
    counted = together * share / np.where(normal > 0, normal, 1.0)
    return of_clients(cohort, moved(cohort, counted), counted, score=normal, score_of=SCORE)
