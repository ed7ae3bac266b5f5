"""Adaptive server optimization, FedOPT (Reddi et al., Algorithm 2, https://arxiv.org/abs/2003.00295)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.options import check_choice
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import check_weighting, client_share, moved, of_clients
from auricle_learning.aggregation.server_optimizer import (
    TORCH_ADAM,
    OptimizerSettings,
    OptimizerState,
    first_state,
    step,
)

VARIANTS = ("adam", "yogi", "adagrad", "torch-adam")


def check_fedopt(
    *,
    variant: str,
    lr: float | None,
    beta1: float | None,
    beta2: float | None,
    tau: float | None,
    v0: float | None,
    bias_correction: bool | None,
    weighting: str,
    clip: float,
    limit: str,
) -> None:
    """Refuse a variant that does not exist, or a constant outside its range.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_weighting(weighting=weighting, clip=clip, limit=limit)
    optimizer_of(variant, lr=lr, beta1=beta1, beta2=beta2, tau=tau, v0=v0, bias_correction=bias_correction)


def fedopt(
    cohort: Cohort,
    *,
    variant: str = "adam",
    lr: float | None = None,
    beta1: float | None = None,
    beta2: float | None = None,
    tau: float | None = None,
    v0: float | None = None,
    bias_correction: bool | None = None,
    weighting: str = "samples",
    clip: float = 5.0,
    limit: str = "clamp",
) -> Aggregate:
    """Let the model follow the clients' average by an adaptive optimizer.

    Δ = Σ p_k (w_k - w), m ← β1 m + (1-β1) Δ, w ← w + η m / (√v + τ), with v ← v + Δ² (adagrad), β2 v + (1-β2) Δ²
    (adam) or v - (1-β2) Δ² sign(v - Δ²) (yogi); m₀ = 0, v₀ = τ², no bias correction (A2). A round in which nobody
    counts keeps the moments as they are.

    Parameters
    ----------
    cohort
        K updates; `extras.state` has the moments of the round before.
    variant
        "adam", "yogi", "adagrad", or "torch-adam": `torch.optim.Adam` on -Δ, as FedAudio runs it.
    lr, beta1, beta2, tau, v0, bias_correction
        η, β1, β2, τ, v₀. None for the variant's: 0.01, 0.9 (adagrad 0), 0.99, 1e-3, τ², no; of torch-adam 1e-3, 0.9,
        0.999, 1e-8, 0, yes.
    weighting, clip, limit
        p_k: "samples" (A3), "uniform" or "fedvsa"; `clip` and `limit` as in `fedvsa`.

    Returns
    -------
    Aggregate
        `weights` (P,), `share` p_k, and the moments in `state`.

    Raises
    ------
    SettingsError
        An option is not allowed.

    Examples
    --------
    >>> from auricle_learning import average
    >>> from auricle_learning.aggregation.extras import Extras
    >>> average([[1.0], [3.0]], method="fedopt", extras=Extras(), lr=0.1).round(3)
    array([0.1])
    """
    check_weighting(weighting=weighting, clip=clip, limit=limit)
    settings = optimizer_of(variant, lr=lr, beta1=beta1, beta2=beta2, tau=tau, v0=v0, bias_correction=bias_correction)
    kept = cohort.extras.kept_by("fedopt")
    share = client_share(cohort, weighting, clip=clip, limit=limit) if cohort.ids else np.zeros(0)
    if not share.any():
        return replace(unchanged(cohort, NO_LOSS) if cohort.ids else unchanged(cohort), state=cohort.extras.state)
    fresh = first_state(cohort.start.size, settings)
    before = OptimizerState(kept.arrays.get("m", fresh.m), kept.arrays.get("v", fresh.v), kept.step)
    after, weights = step(before, cohort.start.astype(np.float64), moved(cohort, share), settings)
    state = RuleState("fedopt", {"m": after.m, "v": after.v}, after.step)
    return of_clients(cohort, weights, share, state=state)


def optimizer_of(variant: str, **constants: float | bool | None) -> OptimizerSettings:
    """The optimizer that a variant names, with the constants that are given; SettingsError for one not allowed."""
    check_choice("variant", variant, VARIANTS)
    usual = TORCH_ADAM if variant == "torch-adam" else OptimizerSettings(kind=variant)
    named = {name: value for name, value in constants.items() if value is not None}
    return replace(usual, **named)  # type: ignore[arg-type]
