"""Relaxed Pareto optimization, FedRPO: a common direction of labelled and unlabelled clients by a linear program."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from auricle.wire.plan import FixMatch, Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.direction import Direction, angles_to
from auricle_learning.aggregation.options import Count, Positive
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.fedavg import FedAvgOptions
from auricle_learning.aggregation.rules.relaxed_pareto import relaxed_pareto
from auricle_learning.aggregation.rules.weighting import (
    have_direction,
    moved,
    of_clients,
    products_with,
    reference_of,
    update_norms,
    update_products,
)

SCORE = "weight of the client's direction in the common one"
STATIONARY = "no update has a direction: the model is unchanged"


class FedRpoOptions(FedAvgOptions, frozen=True):
    """Options of `fedrpo`; w_k, the prioritisation, are the weights of `weighting`.

    "samples" takes `extras.reference_samples` for the coordinator's.
    """

    c: Annotated[float, Meta(ge=-1, le=0, description="Relaxation, from -1 (none is held back) to 0.")] = -0.1
    lr: Annotated[Positive, Meta(description="η.")] = 0.05
    step: Annotated[
        Positive | None,
        Meta(description="η in units of the clients' rate, in place of `lr`: with 1 a step as long as theirs."),
    ] = None
    epochs: Annotated[Count, Meta(description="Of the coordinator's own training.")] = 1
    server_lr: Annotated[
        Positive | None, Meta(description="Rate of the coordinator's own training; None for the clients' rate.")
    ] = None
    combine: Annotated[
        Literal["pareto", "average"],
        Meta(
            description='"pareto", or "average" for d = Σ w_k g_k, without the linear program: FedAvg of clients and '
            "coordinator."
        ),
    ] = "pareto"
    threshold: Annotated[
        float, Meta(gt=0, le=1, description="τ of the devices' FixMatch; the rule itself does not use it.")
    ] = 0.7
    unlabelled: Annotated[
        float,
        Meta(ge=0, le=100, description="λ of the devices' FixMatch: the weight of clips without a label."),
    ] = 1.0


def fedrpo(cohort: Cohort, options: FedRpoOptions) -> Aggregate:
    """Step along the direction that helps most and hurts no labelled party, and unlabelled ones little.

    With g_k = (w^t - w_k) / η_local, ĝ_k = g_k / ‖g_k‖ and Q = Ĝ Ĝᵀ: max αᵀ Q w with (Qα)_i ≥ 0 for labelled i and ≥ c
    for the others, Σ α = 1, α ≥ 0 (A32, A33). d = (Σ w_k ‖g_k‖) Σ α_k ĝ_k, w ← w - η d. Updates of length 0, or so
    short beside the longest that rounding decides their direction, are left out. The coordinator's own training on its
    labelled clips is one more labelled party, whose η_local is `server_lr`.

    Parameters
    ----------
    cohort
        K updates; `extras.reference` or `extras.objectives` for the coordinator's own, `extras.labelled` (K,) for
        clients with labels, `extras.rate` for η_local (1 without).

    Returns
    -------
    Aggregate
        `weights` (P,); `share` of each update as it was sent; `score` (K,) α of the clients; `direction` with the
        angles. w^t with a flag where no update has a direction.

    Raises
    ------
    AuricleError
        SciPy is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from auricle_learning import average
    >>> from auricle_learning.aggregation.extras import Extras
    >>> extras = Extras(reference=np.array([-1.0]))
    >>> average([[1.0], [3.0]], method="fedrpo", lr=1.0, combine="average", extras=extras).round(2)
    array([1.67])
    """
    if not cohort.ids:
        return unchanged(cohort)
    extras, rate = cohort.extras, cohort.extras.rate or 1.0
    own = np.zeros(cohort.start.size)
    if extras.reference is not None or extras.objectives:
        trained_at = options.server_lr or rate
        own = reference_of(cohort, epochs=options.epochs, lr=options.server_lr) * (rate / trained_at)
    products, norms = update_products(cohort), np.append(update_norms(cohort), np.sqrt(own @ own))
    with_own = np.append(products_with(cohort, -own), own @ own)
    whole = np.vstack([np.column_stack([products, with_own[:-1]]), with_own])
    long = have_direction(norms)
    labels = np.append(np.zeros(norms.size - 1) if extras.labelled is None else extras.labelled, 1.0) > 0
    sizes = np.append(cohort.samples, extras.reference_samples or cohort.samples.mean())
    priority = (sizes if options.weighting == "samples" and sizes.sum() > 0 else np.ones(norms.size)) * long
    if not priority.any():
        return unchanged(cohort, STATIONARY)
    priority /= priority.sum()
    used = np.flatnonzero(long)
    cosines = whole[np.ix_(used, used)] / np.outer(norms[used], norms[used])
    alpha = np.zeros(norms.size)
    if options.combine == "average":
        alpha = priority * norms / (priority @ norms)
    else:
        alpha[used] = relaxed_pareto(cosines, priority[used], labels[used], options.c)
    step = options.lr / rate if options.step is None else options.step
    length = step * float(priority @ norms)
    counted = length * alpha / np.where(long, norms, 1.0)
    weights = moved(cohort, counted[:-1]) - counted[-1] * own
    angles = np.full(norms.size, np.nan)
    angles[used] = angles_to(cosines, alpha[used])
    direction = Direction(angles[:-1], labels[:-1].astype(np.float64), float(angles[-1]), float(alpha[-1]))
    return of_clients(cohort, weights, counted[:-1], score=alpha[:-1], score_of=SCORE, direction=direction)


def fedrpo_plan(plan: Plan, options: FedRpoOptions) -> Plan:
    """Clients train the model itself, by FixMatch where they have clips without labels; as the plan was for λ = 0."""
    if not options.unlabelled:
        return plan
    told = FixMatch(threshold=options.threshold, weight=options.unlabelled)
    return msgspec.structs.replace(plan, mode="supervised", fixmatch=told)
