"""Normalised averaging, FedNova (Wang et al. 2020, https://arxiv.org/abs/2007.07481)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Aggregate, Cohort, CohortError
from auricle_learning.aggregation.options import NotNegative, Part, Positive
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.client_steps import normalised_steps, steps_of
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import WeightedOptions, client_share, moved, of_clients

SCORE = "local steps, normalised"
NO_STEPS = "no client took a step: the model is unchanged"


class FedNovaOptions(WeightedOptions, frozen=True):
    """Options of `fednova`; p_i are the weights of `weighting`.

    Raises
    ------
    SettingsError
        Momentum and the proximal term are both asked for.
    """

    momentum: Annotated[Part, Meta(description="ρ of the clients' SGD.")] = 0.0
    mu: Annotated[NotNegative, Meta(description="μ of their proximal term; not with `momentum`.")] = 0.0
    lr: Annotated[Positive | None, Meta(description="η of their SGD, which `mu` needs; None: that of the plan.")] = None
    tau_eff: Annotated[
        Literal["normalised", "steps"],
        Meta(
            description='"normalised", or "steps" for τ_eff = Σ p_i τ_i, as the authors\' code has it with a proximal '
            "term."
        ),
    ] = "normalised"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mu and self.momentum:
            raise SettingsError("momentum and mu cannot both be above 0: leave one of them out.")


def fednova(cohort: Cohort, options: FedNovaOptions) -> Aggregate:
    """Average the clients' directions rather than their distances, so that more local steps do not count for more.

    x ← x - τ_eff Σ p_i (x - y_i) / a_i, τ_eff = Σ p_i a_i, with a_i = τ_i for τ_i steps of plain SGD; see
    `normalised_steps`. Who took no step is left out. Equal a_i give FedAvg.

    Parameters
    ----------
    cohort
        K updates with `extras.steps` (K,); with `mu` also `extras.rate`, unless `lr` is given.

    Returns
    -------
    Aggregate
        `weights` (P,); `share` τ_eff p_i / a_i, what a column lacks to 1 is w^t; `score` (K,) a_i. w^t with a flag
        where nobody counts.

    Raises
    ------
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
    if not cohort.ids:
        return unchanged(cohort)
    steps = steps_of(cohort)
    rate = options.lr if options.lr is not None else cohort.extras.rate
    if options.mu and rate is None:
        raise CohortError("FedNova with mu needs the clients' learning rate: name it in lr.")
    normal = normalised_steps(steps, momentum=options.momentum, shrink=options.mu * (rate or 0.0))
    if not (normal > 0).any():
        return unchanged(cohort, NO_STEPS)
    share = client_share(cohort, options, kept=normal > 0)
    if not share.any():
        return unchanged(cohort, NO_LOSS)
    together = float(share @ (normal if options.tau_eff == "normalised" else steps))
    counted = together * share / np.where(normal > 0, normal, 1.0)
    return of_clients(cohort, moved(cohort, counted), counted, score=normal, score_of=SCORE)
