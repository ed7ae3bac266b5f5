"""The common direction of a round, and how far each party's own is from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from auricle_learning.aggregation.compute.distances import Float64Array


@dataclass(frozen=True, eq=False)
class Direction:
    """Angles in degrees: 0 is the same way, 90 neither for nor against, 180 the opposite; NaN where one has none."""

    angles: Float64Array
    """(K,) between each client's direction and the common one."""
    labelled: Float64Array
    """(K,) 1 for a client that trained on labels."""
    coordinator: float
    """Between the direction of the coordinator's labelled clips and the common one."""
    coordinator_weight: float
    """Of the former in the latter."""

    def report(self, ids: tuple[str, ...]) -> dict[str, object]:
        """As a report has it, by device."""
        return {
            "angles": dict(zip(ids, map(_known, self.angles.tolist()), strict=True)),
            "labelled": [name for name, has in zip(ids, self.labelled, strict=True) if has],
            "coordinator": _known(self.coordinator),
            "coordinator_weight": self.coordinator_weight,
        }


def angles_to(cosines: Float64Array, alpha: Float64Array) -> Float64Array:
    """Degrees (K,) between unit directions and their combination Σ α_k ĝ_k; NaN where that is 0.

    Parameters
    ----------
    cosines
        Q (K, K) of the unit directions.
    alpha
        α (K,).
    """
    along = cosines @ alpha
    square = float(alpha @ along)
    if square <= 1e-24:
        return np.full(alpha.size, np.nan)
    return np.asarray(np.degrees(np.arccos(np.clip(along / math.sqrt(square), -1.0, 1.0))), np.float64)


def _known(angle: float) -> float | None:
    return angle if math.isfinite(angle) else None
