"""Aggregation by inference loss (FedVSA, eq. 6-8)."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from auricle.wire.plan import InferenceLoss, Plan
from auricle_learning.aggregation.cohort import Aggregate, BoolArray, Cohort, Float64Array
from auricle_learning.aggregation.options import Options, Positive
from auricle_learning.aggregation.rules.average import average, unchanged

NO_LOSS = "no usable inference loss: the model is unchanged"


Clip = Annotated[
    Positive,
    Meta(description="C, in the unit of the loss (of ce nats). 5 is above ln(classes) + 1 for 35 words (A38)."),
]
LossLimit = Literal["clamp", "norm"]
Limit = Annotated[
    LossLimit, Meta(description='"clamp", or "norm" for f · min(1, C / ‖f‖₂) over the clients with a usable loss.')
]


ReportedLoss = Annotated[
    InferenceLoss,
    Meta(
        description='What devices say of the model: "ce"; or of posteriors p and one-hot y "mse", Σ (p - y)², or "l1", '
        "Σ |p - y|. Mean over clips of a sum over labels, as CE is one (A37)."
    ),
]


class LossOptions(Options, frozen=True):
    """How losses are limited, of each rule that weighs by them."""

    clip: Clip = 5.0
    limit: Limit = "clamp"


class FedVsaOptions(LossOptions, frozen=True):
    """Options of `fedvsa`: which losses devices say, and how these are limited."""

    inference_loss: ReportedLoss = "ce"


def fedvsa(cohort: Cohort, options: FedVsaOptions) -> Aggregate:
    """Weigh the clients by the loss that the received model had on their data.

    f_k = clip(F_k, 0, C), p = softmax(f), w = Σ_k p_k w_k (eq. 6-8); n_k is not used. F_k is the *mean* loss (A37). A
    client whose loss is NaN is left out, +inf counts as C. This holds for a single client too: without a loss it does
    not count and w^t stays.

    The loss is self-reported. With "clamp" no client outweighs another by more than e^C; that a client tells the truth
    is a trust assumption which the paper answers with a trusted execution environment.

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `losses` (K,).

    Returns
    -------
    Aggregate
        `weights` (P,); w^t with a flag where nobody has a usable loss.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [3.0]], losses=[0.0, 1.0], method="fedvsa").round(3)
    array([2.462])
    """
    if not cohort.ids:
        return unchanged(cohort)
    limited = limit_losses(cohort.losses, clip=options.clip, limit=options.limit)
    usable = ~np.isnan(limited)
    if not usable.any():
        return unchanged(cohort, NO_LOSS)
    columns = len(cohort.layers)
    share = np.repeat(softmax_share(limited, usable)[:, None], columns, axis=1)
    return Aggregate(
        weights=average(cohort, share),
        ids=cohort.ids,
        layers=cohort.names,
        kept=np.repeat(usable[:, None], columns, axis=1),
        share=share,
        dropped=cohort.dropped,
    )


def fedvsa_plan(plan: Plan, options: FedVsaOptions) -> Plan:
    """Devices say the loss of the option `inference_loss`."""
    return msgspec.structs.replace(plan, inference_loss=options.inference_loss)


def limit_losses(losses: Float64Array, *, clip: float, limit: str) -> Float64Array:
    """Bring the losses into a range that a softmax can weigh (eq. 6-7, A38).

    Parameters
    ----------
    losses
        (K,) inference losses; NaN stays NaN and takes no part in the norm.
    clip
        C. +inf becomes C before either limit, -inf becomes 0.
    limit
        "clamp" to [0, C], or "norm" for f · min(1, C / ||f||_2).

    Returns
    -------
    array (K,)
        Limited losses, NaN where unknown.
    """
    if limit == "clamp":
        return np.clip(losses, 0.0, clip)
    finite = np.where(np.isposinf(losses), clip, np.where(np.isneginf(losses), 0.0, losses))
    length = math.hypot(*finite[~np.isnan(finite)].tolist())
    return finite * min(1.0, clip / length) if length > 0 else finite


def softmax_share(limited: Float64Array, chosen: BoolArray) -> Float64Array:
    """Return the softmax over the chosen clients (eq. 8), 0 for the others; the largest is subtracted first.

    Parameters
    ----------
    limited
        (K,) limited losses.
    chosen
        (K,) at least one client, none of them with NaN.
    """
    share = np.zeros(limited.shape)
    exponents = np.exp(limited[chosen] - limited[chosen].max())
    share[chosen] = exponents / exponents.sum()
    return share
