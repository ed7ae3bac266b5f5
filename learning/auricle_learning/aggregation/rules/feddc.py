"""The server's half of FedDC (Gao et al. 2022, https://arxiv.org/abs/2203.11751)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auricle_learning.aggregation.cohort import Aggregate, Cohort, Float64Array
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.options import check_choice, check_number
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.client_steps import fleet_size, mean_gradients, steps_of
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import check_weighting, client_share, moved, of_clients

NAME = "feddc"


def check_feddc(*, mode: str, alpha: float, weighting: str | None, clip: float, limit: str) -> None:
    """Refuse a mode that does not exist, or an α that is not a positive number.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_choice("mode", mode, ("official", "paper"))
    check_number("alpha", alpha, above=True)
    check_weighting(weighting="uniform" if weighting is None else weighting, clip=clip, limit=limit)


def feddc(
    cohort: Cohort,
    *,
    mode: str = "official",
    alpha: float = 0.01,
    weighting: str | None = None,
    clip: float = 5.0,
    limit: str = "clamp",
) -> Aggregate:
    """Average the clients together with the drift that each of them has had over all its rounds.

    With h_i ← h_i + θ_i - w on the clients: w ← mean_S θ_i + mean_all h_i ("official", the authors' code, A46) or
    w ← Σ_S p_i (θ_i + h_i) ("paper"); g ← g + (1/N) Σ_S ω_i (g_i⁺ - g_i), g_i⁺ - g_i = (w - θ_i) / (K_i η) - g / ω_i,
    ω_i = n_i N / Σ n. All of it follows from updates and steps, so no client has to send more.

    Parameters
    ----------
    cohort
        K updates with `extras.steps`, `rate` (η), `clients` (N), `total_samples` (Σ n) and in `state` the drifts and g.
    mode
        Which server step; "paper" keeps a vector for each client.
    alpha
        α of the clients, greater than 0; the server's step does not use it.
    weighting, clip, limit
        None for "uniform" in the official mode and "samples" in the paper's; or "fedvsa", as in `fedvsa`.

    Returns
    -------
    Aggregate
        `weights` (P,), `share` of the mean, and drifts and g in `state`.

    Raises
    ------
    SettingsError
        An option is not allowed.
    CohortError
        Steps or rate are not known.
    """
    if weighting is None:
        weighting = "samples" if mode == "paper" else "uniform"
    check_feddc(mode=mode, alpha=alpha, weighting=weighting, clip=clip, limit=limit)
    share = client_share(cohort, weighting, clip=clip, limit=limit) if cohort.ids else np.zeros(0)
    if not share.any():
        return replace(unchanged(cohort, NO_LOSS) if cohort.ids else unchanged(cohort), state=cohort.extras.state)
    size, clients, kept = cohort.start.size, fleet_size(cohort), cohort.extras.kept_by(NAME)
    g, steps = kept.array("g", size), steps_of(cohort)
    gradients = mean_gradients(cohort, steps, relative_sizes(cohort))
    arrays = {**kept.arrays, "g": g + (gradients - (steps > 0).sum() * g) / clients}
    mean = moved(cohort, share)
    if mode == "official":
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
    total = cohort.extras.total_samples
    if total is None or total < cohort.samples.sum():
        total = float(cohort.samples.mean()) * fleet_size(cohort)
    return cohort.samples * fleet_size(cohort) / total if total > 0 else np.ones(cohort.samples.shape)
