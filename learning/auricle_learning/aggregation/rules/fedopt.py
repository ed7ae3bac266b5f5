"""Adaptive server optimization, FedOPT (Reddi et al., Algorithm 2, https://arxiv.org/abs/2003.00295)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.options import Part, Positive
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import WeightedOptions, client_share, moved, of_clients
from auricle_learning.aggregation.server_optimizer import (
    TORCH_ADAM,
    OptimizerSettings,
    OptimizerState,
    first_state,
    step,
)


class FedOptOptions(WeightedOptions, frozen=True):
    """Options of `fedopt`; p_k are the weights of `weighting` (A3). A constant that is None is its variant's."""

    variant: Annotated[
        Literal["adam", "yogi", "adagrad", "torch-adam"],
        Meta(description='The optimizer; "torch-adam" is `torch.optim.Adam` on -Δ, as FedAudio runs it.'),
    ] = "adam"
    lr: Annotated[Positive | None, Meta(description="η. None: 0.01; of torch-adam 1e-3.")] = None
    beta1: Annotated[Part | None, Meta(description="β1. None: 0.9; of adagrad 0.")] = None
    beta2: Annotated[Part | None, Meta(description="β2. None: 0.99; of torch-adam 0.999.")] = None
    tau: Annotated[Positive | None, Meta(description="τ. None: 1e-3; of torch-adam 1e-8.")] = None
    v0: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="v₀. None: τ²; of torch-adam 0.")] = None
    bias_correction: Annotated[
        bool | None, Meta(description="Whether m and v are divided by 1 - β^t. None: no; of torch-adam yes.")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        optimizer_of(self)


def fedopt(cohort: Cohort, options: FedOptOptions) -> Aggregate:
    """Let the model follow the clients' average by an adaptive optimizer.

    Δ = Σ p_k (w_k - w), m ← β1 m + (1-β1) Δ, w ← w + η m / (√v + τ), with v ← v + Δ² (adagrad), β2 v + (1-β2) Δ²
    (adam) or v - (1-β2) Δ² sign(v - Δ²) (yogi); m₀ = 0, v₀ = τ², no bias correction (A2). A round in which nobody
    counts keeps the moments as they are.

    Parameters
    ----------
    cohort
        K updates; `extras.state` has the moments of the round before.

    Returns
    -------
    Aggregate
        `weights` (P,), `share` p_k, and the moments in `state`.

    Examples
    --------
    >>> from auricle_learning import average
    >>> from auricle_learning.aggregation.extras import Extras
    >>> average([[1.0], [3.0]], method="fedopt", extras=Extras(), lr=0.1).round(3)
    array([0.1])
    """
    settings = optimizer_of(options)
    kept = cohort.extras.kept_by("fedopt")
    share = client_share(cohort, options) if cohort.ids else np.zeros(0)
    if not share.any():
        return replace(unchanged(cohort, NO_LOSS) if cohort.ids else unchanged(cohort), state=cohort.extras.state)
    fresh = first_state(cohort.start.size, settings)
    before = OptimizerState(kept.arrays.get("m", fresh.m), kept.arrays.get("v", fresh.v), kept.step)
    after, weights = step(before, cohort.start.astype(np.float64), moved(cohort, share), settings)
    state = RuleState("fedopt", {"m": after.m, "v": after.v}, after.step)
    return of_clients(cohort, weights, share, state=state)


def optimizer_of(options: FedOptOptions) -> OptimizerSettings:
    """The optimizer that a variant names, with the constants that are given; SettingsError where v₀ = τ² is none."""
    usual = TORCH_ADAM if options.variant == "torch-adam" else OptimizerSettings(kind=options.variant)
    constants = {name: getattr(options, name) for name in ("lr", "beta1", "beta2", "tau", "v0", "bias_correction")}
    named = {name: value for name, value in constants.items() if value is not None}
    return replace(usual, **named)
