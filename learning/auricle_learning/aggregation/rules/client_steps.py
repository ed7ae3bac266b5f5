"""What rules make of the number of steps that clients took, and of the size of the fleet."""

from __future__ import annotations

import numpy as np

from auricle_learning.aggregation.cohort import Cohort, CohortError, Float64Array
from auricle_learning.aggregation.rules.weighting import moved


def steps_of(cohort: Cohort) -> Float64Array:
    """(K,) local steps; CohortError where they are not known or negative."""
    steps = cohort.extras.steps
    if steps is None or (steps < 0).any():
        raise CohortError("the rule needs the number of steps of each client, at least 0.")
    return steps


def normalised_steps(steps: Float64Array, *, momentum: float = 0.0, shrink: float = 0.0) -> Float64Array:
    """‖a_i‖₁: by how much more a first gradient counts after τ_i steps than after one.

    τ for plain SGD; [τ - ρ (1-ρ^τ) / (1-ρ)] / (1-ρ) with momentum ρ; Σ_{j<τ} (1-ημ)^j with a proximal term.

    Parameters
    ----------
    steps
        (K,) τ.
    momentum
        ρ, in [0, 1).
    shrink
        ημ, at least 0.
    """
    if momentum:
        return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
    if shrink:
        return (1 - (1 - shrink) ** steps) / shrink
    return steps


def mean_gradients(cohort: Cohort, steps: Float64Array, weight: Float64Array | None = None) -> Float64Array:
    """Σ_k a_k (w^t - w_k) / (K_k η) (P,), the mean gradients of who took steps; a_k = 1 without `weight` (K,).

    Raises
    ------
    CohortError
        The clients' learning rate is not known.
    """
    rate = cohort.extras.rate
    if rate is None or not rate > 0:
        raise CohortError("the rule needs the clients' learning rate, greater than 0.")
    stepped = steps > 0
    factor = np.where(stepped, 1.0 if weight is None else weight, 0.0) / (np.where(stepped, steps, 1.0) * rate)
    return cohort.start.astype(np.float64) - moved(cohort, factor)


def fleet_size(cohort: Cohort) -> int:
    """N, at least the clients of the round."""
    return max(cohort.extras.clients or 0, len(cohort.ids))
