"""Zeno++ in its synchronous form (Xie et al. 2020, https://arxiv.org/abs/1903.07020)."""

from __future__ import annotations

import math

import numpy as np

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import check_count, check_number
from auricle_learning.aggregation.rules.average import ten_digits, unchanged
from auricle_learning.aggregation.rules.weighting import (
    check_weighting,
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


def check_zeno(
    *,
    gamma: float,
    rho: float,
    epsilon: float,
    epochs: int,
    lr: float | None,
    weighting: str,
    clip: float,
    limit: str,
) -> None:
    """Refuse constants outside their range.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_number("gamma", gamma, above=True)
    check_number("rho", rho)
    check_number("epsilon", epsilon)
    check_count("epochs", epochs, least=1, optional=False)
    if lr is not None:
        check_number("lr", lr, above=True)
    check_weighting(weighting=weighting, clip=clip, limit=limit)


def zeno(
    cohort: Cohort,
    *,
    gamma: float = 1.0,
    rho: float = 1e-3,
    epsilon: float = 0.0,
    epochs: int = 1,
    lr: float | None = None,
    weighting: str = "uniform",
    clip: float = 5.0,
    limit: str = "clamp",
) -> Aggregate:
    """Take the clients whose direction the coordinator's own training on labelled clips agrees with.

    g_k = w^t - w_k, g̃_k = g_k ‖g_r‖ / ‖g_k‖, accepted where γ⟨g_r, g̃_k⟩ - ρ‖g̃_k‖² ≥ -γε; w ← w - γ mean(accepted g̃)
    (A51). The normalised update is applied, so a scaled one counts for no more. An update of length 0, or so short that
    rounding decides its direction, is not accepted.

    Parameters
    ----------
    cohort
        K updates with `extras.reference` (g_r), or `extras.objectives` to make it of.
    gamma, rho, epsilon
        γ greater than 0, ρ and ε at least 0.
    epochs, lr
        Of the coordinator's own training; `lr` None for the clients' rate.
    weighting, clip, limit
        "uniform", "samples" or "fedvsa" among the accepted; `clip` and `limit` as in `fedvsa`.

    Returns
    -------
    Aggregate
        `weights` (P,); `share` of each update as it was sent, what a column lacks to 1 is w^t; `score` (K,). w^t with a
        flag where nobody is accepted.

    Raises
    ------
    SettingsError
        An option is not allowed.
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
    check_zeno(gamma=gamma, rho=rho, epsilon=epsilon, epochs=epochs, lr=lr, weighting=weighting, clip=clip, limit=limit)
    if not cohort.ids:
        return unchanged(cohort)
    reference = reference_of(cohort, epochs=epochs, lr=lr)
    length, norms = math.sqrt(float(reference @ reference)), update_norms(cohort)
    long = have_direction(norms, length)
    scale = np.where(long, length / np.where(long, norms, 1.0), 0.0)
    along = products_with(cohort, -reference) * scale  # ⟨g_r, g̃_k⟩
    score = ten_digits(gamma * along - rho * np.square(scale * norms))
    accepted = (score >= -gamma * epsilon) & long
    share = client_share(cohort, weighting, clip=clip, limit=limit, kept=accepted)
    if not share.any():
        return unchanged(cohort, NOBODY)
    counted = gamma * share * scale
    return of_clients(cohort, moved(cohort, counted), counted, score=score, score_of=SCORE)
