"""Zeno++ in its synchronous form (Xie et al. 2020, https://arxiv.org/abs/1903.07020)."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import Count, NotNegative, Positive
from auricle_learning.aggregation.rules.average import ten_digits, unchanged
from auricle_learning.aggregation.rules.weighting import (
    WeightedOptions,
    Weighting,
    client_share,
    have_direction,
    moved,
    of_clients,
    products_with,
    reference_of,
    update_norms,
)

SCORE = "Zeno++ score: descent along the coordinator's own update, less the candidate's length"
NOBODY = "nobody's update goes with the coordinator's own: the model is unchanged"


class ZenoOptions(WeightedOptions, frozen=True):
    """Options of `zeno`; what is weighed are the clients that are accepted."""

    gamma: Annotated[Positive, Meta(description="γ.")] = 1.0
    rho: Annotated[NotNegative, Meta(description="ρ.")] = 1e-3
    epsilon: Annotated[NotNegative, Meta(description="ε.")] = 0.0
    epochs: Annotated[Count, Meta(description="Of the coordinator's own training.")] = 1
    lr: Annotated[
        Positive | None, Meta(description="Rate of the coordinator's own training; None for the clients' rate.")
    ] = None
    weighting: Weighting = "uniform"


def zeno(cohort: Cohort, options: ZenoOptions) -> Aggregate:
    """Take the clients whose direction the coordinator's own training on labelled clips agrees with.

    g_k = w^t - w_k, g̃_k = g_k ‖g_r‖ / ‖g_k‖, accepted where γ⟨g_r, g̃_k⟩ - ρ‖g̃_k‖² ≥ -γε; w ← w - γ mean(accepted g̃)
    (A51). The normalised update is applied, so a scaled one counts for no more. An update of length 0, or so short that
    rounding decides its direction, is not accepted.

    Parameters
    ----------
    cohort
        K updates with `extras.reference` (g_r), or `extras.objectives` to make it of.

    Returns
    -------
    Aggregate
        `weights` (P,); `share` of each update as it was sent, what a column lacks to 1 is w^t; `score` (K,). w^t with a
        flag, and the scores, where nobody is accepted.

    Raises
    ------
    CohortError
        There are no labelled clips and no reference.

    Examples
    --------
    >>> import numpy as np
    >>> from auricle_learning import average
    >>> from auricle_learning.aggregation.extras import Extras
    >>> average([[1.0], [0.5], [-9.0]], method="zeno", extras=Extras(reference=np.array([-1.0])))
    array([1.])
    """
    if not cohort.ids:
        return unchanged(cohort)
    reference = reference_of(cohort, epochs=options.epochs, lr=options.lr)
    length, norms = math.sqrt(float(reference @ reference)), update_norms(cohort)
    long = have_direction(norms, length)
    scale = np.where(long, length / np.where(long, norms, 1.0), 0.0)
    along = products_with(cohort, -reference) * scale  # ⟨g_r, g̃_k⟩
    gamma = options.gamma
    score = ten_digits(gamma * along - options.rho * np.square(scale * norms))
    accepted = (score >= -gamma * options.epsilon) & long
    share = client_share(cohort, options, kept=accepted)
    if not share.any():
        return unchanged(cohort, NOBODY, score=score, score_of=SCORE)
    counted = gamma * share * scale
    return of_clients(cohort, moved(cohort, counted), counted, score=score, score_of=SCORE)
