"""FedDC: local drift decoupling and correction (Gao et al. 2022, https://arxiv.org/abs/2203.11751).

A client minimises L_i(θ) + α/(2 ω_i) ‖θ - (w - h_i)‖² + ⟨θ, g - g_i⟩, then sets h_i ← h_i + θ_i - w and
g_i ← g_i - g/ω_i + (w - θ_i) / (K_i η), zeros at first, with ω_i = n_i N / Σ n. The server sets w ← mean_S θ_i +
mean_all h_i and g ← g + (1/N) Σ_S ω_i (g_i⁺ - g_i).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort, Float64Array
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.options import Positive
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.client_steps import fleet_size, mean_gradients, steps_of
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS, LossOptions
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.aggregation.rules.weighting import WeightedOptions, Weighting, client_share, moved, of_clients
from auricle_learning.methods.method import JobChanges, Kept, Method, Needs, Received, Sent, Trained, Vector

NAME = "feddc"


class FedDcOptions(LossOptions, frozen=True):
    """Options of `feddc`."""

    mode: Annotated[
        Literal["official", "paper"], Meta(description='Which server step; "paper" keeps a vector for each client.')
    ] = "official"
    alpha: Annotated[Positive, Meta(description="α of the clients; the server's step does not use it.")] = 0.01
    weighting: Annotated[
        Weighting | None,
        Meta(description='None for "uniform" in the official mode and "samples" in the paper\'s; or "fedvsa".'),
    ] = None


def feddc(cohort: Cohort, options: FedDcOptions) -> Aggregate:
    """Average the clients together with the drift that each of them has had over all its rounds.

    With h_i ← h_i + θ_i - w on the clients: w ← mean_S θ_i + mean_all h_i ("official", the authors' code, A46) or
    w ← Σ_S p_i (θ_i + h_i) ("paper"); g ← g + (1/N) Σ_S ω_i (g_i⁺ - g_i), g_i⁺ - g_i = (w - θ_i) / (K_i η) - g / ω_i,
    ω_i = n_i N / Σ n. All of it follows from updates and steps, so no client has to send more.

    Parameters
    ----------
    cohort
        K updates with `extras.steps`, `rate` (η), `clients` (N), `total_samples` (Σ n) and in `state` the drifts and g.

    Returns
    -------
    Aggregate
        `weights` (P,), `share` of the mean, and drifts and g in `state`.

    Raises
    ------
    CohortError
        Steps or rate are not known.
    """
    weighting = options.weighting or ("samples" if options.mode == "paper" else "uniform")
    weighted = WeightedOptions(options.clip, options.limit, weighting)
    share = client_share(cohort, weighted) if cohort.ids else np.zeros(0)
    if not share.any():
        return replace(unchanged(cohort, NO_LOSS) if cohort.ids else unchanged(cohort), state=cohort.extras.state)
    size, clients, kept = cohort.start.size, fleet_size(cohort), cohort.extras.kept_by(NAME)
    g, steps = kept.array("g", size), steps_of(cohort)
    gradients = mean_gradients(cohort, steps, relative_sizes(cohort))
    arrays = {**kept.arrays, "size": mean_size(cohort), "g": g + (gradients - (steps > 0).sum() * g) / clients}
    mean = moved(cohort, share)
    if options.mode == "official":
        drift = moved(cohort, np.ones(share.size)) - cohort.start
        arrays["h_sum"] = kept.array("h_sum", size) + drift
        weights = mean + arrays["h_sum"] / clients
    else:
        for place, client in enumerate(cohort.ids):
            own = kept.array(f"h/{client}", size) + cohort.weights[place] - cohort.start
            arrays[f"h/{client}"] = own
            mean += share[place] * own
        weights = mean
    return of_clients(cohort, weights, share, state=RuleState(NAME, arrays, kept.step + 1))


def relative_sizes(cohort: Cohort) -> Float64Array:
    """(K,) ω_i = n_i N / Σ n over all clients; ones where nobody has samples."""
    mean = float(mean_size(cohort)[0, 0])
    return cohort.samples / mean if mean > 0 else np.ones(cohort.samples.shape)


def mean_size(cohort: Cohort) -> Float64Array:
    """(1, 1) Σ n / N over all clients; that of this round where the whole is not known, or cannot be."""
    total = cohort.extras.total_samples
    if total is None or total < cohort.samples.sum():
        return np.full((1, 1), float(cohort.samples.mean()))
    return np.full((1, 1), total / fleet_size(cohort))


def before(received: Received, kept: Kept) -> JobChanges:
    """Clients pull towards w - h_i with α/ω_i, and add g - g_i to each gradient."""
    drift, own = (received.own(kept, name) for name in ("h", "g"))
    return JobChanges(
        terms=("drift",),
        vectors={"anchor": received.plugin - drift, "linear": received.vector("g") - own},
        scalars={"mu": received.options(FedDcOptions).alpha / _relative_size(received)},
    )


def after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Clients keep h_i ← h_i + θ_i - w and g_i ← g_i - g/ω_i + (w - θ_i) / (K_i η); g_i where they took no step."""
    received = trained.received
    drift, own = (received.own(kept, name) for name in ("h", "g"))
    moved_by = trained.plugin.astype(np.float64) - received.plugin
    if trained.steps:
        stepped = moved_by / (trained.steps * received.plan.rate)
        own = (own - received.vector("g") / _relative_size(received) - stepped).astype(np.float32)
    return {}, {"h": (drift + moved_by).astype(np.float32), "g": own}


def _relative_size(received: Received) -> float:
    """ω_i, by the mean that the last round had; 1 before that, or of a client without samples."""
    mean = float(received.vectors["size"][0]) if "size" in received.vectors else 0.0
    return received.samples / mean if mean > 0 and received.samples else 1.0


FEDDC = Method(
    # Whatever the mean's weights: ω_i are the clients' samples.
    Rule(NAME, feddc, FedDcOptions(), needs=("server-state", "steps", "device-half"), step=True),
    Needs(down=(Vector("g"), Vector("size", 1))),
    before,
    after,
)
