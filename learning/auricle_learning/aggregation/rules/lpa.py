"""Layer-wise pruning aggregation (FedMLAC, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle_learning.aggregation.cohort import Aggregate, BoolArray, Cohort, Float64Array
from auricle_learning.aggregation.rules.average import (
    ascending,
    average,
    fraction_of,
    sample_share,
    unchanged,
)
from auricle_learning.aggregation.rules.pruning import PruningOptions


@dataclass(frozen=True, eq=False)
class Pruning:
    """Who is left in each layer, and what it was decided by."""

    deviation: Float64Array
    """(K, L) δ, not rounded."""
    pruned: NDArray[np.int8]
    """(K, L) -1 removed at the near end, +1 at the far end, 0 kept."""
    warnings: tuple[str, ...]

    @property
    def kept(self) -> BoolArray:
        """(K, L) membership in T_l, at least one client in each layer."""
        return np.equal(self.pruned, 0)


class LpaOptions(PruningOptions, frozen=True):
    """Options of `lpa`. The paper gives no values (A14); they sum to less than 1 (A12)."""


def lpa(cohort: Cohort, options: LpaOptions) -> Aggregate:
    """Average each layer over the clients whose weights deviate neither most nor least.

    For layer l, client k deviates by δ[k,l] = ||w[k,l] - mean_j w[j,l]||_2, the mean unweighted (eq. 9-10). The
    floor(prune_low K) smallest and the floor(prune_high K) largest are left out (eq. 11-12); the rest are averaged by
    sample count (eq. 13), equally where none of them has samples.

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,), `layers` L groups.

    Returns
    -------
    Aggregate
        `weights` (P,), and for the operator `kept`, `deviation` and `pruned` (K, L). A warning where a fraction is too
        small to remove anybody from this cohort (A13). w^t with a flag where the cohort is empty.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [2.0], [3.0], [4.0], [90.0]], method="lpa", prune_high=0.2, prune_low=0.2)
    array([2.])
    """
    if not cohort.ids:
        return unchanged(cohort)
    pruning = prune(cohort, options)
    share = sample_share(cohort.samples, pruning.kept)
    return Aggregate(
        weights=average(cohort, share),
        ids=cohort.ids,
        layers=cohort.names,
        kept=pruning.kept,
        share=share,
        deviation=pruning.deviation,
        pruned=pruning.pruned,
        dropped=cohort.dropped,
        warnings=pruning.warnings,
    )


def prune(cohort: Cohort, options: PruningOptions) -> Pruning:
    """Decide T_l for every layer of a cohort that is not empty (eq. 9-12).

    The sets have the exact size of eq. 12. Deviations equal in ten significant digits are a tie, which the id decides
    (A10): the smaller id counts as the nearer one.
    """
    count = len(cohort.ids)
    low, high = fraction_of(options.prune_low, count), fraction_of(options.prune_high, count)
    deviation = cohort.matrix.layer_norms(cohort.spans)
    pruned = np.zeros(deviation.shape, np.int8)
    for column in range(deviation.shape[1]):
        order = ascending(deviation[:, column])
        pruned[order[:low], column] = -1
        pruned[order[count - high :], column] = 1
    removed = (("prune_low", options.prune_low, low), ("prune_high", options.prune_high, high))
    return Pruning(
        deviation,
        pruned,
        warnings=tuple(
            f"{name} {fraction:g} left nobody out: {fraction:g} of {count} devices is less than one. It leaves one "
            f"out from {np.ceil(1 / fraction):.0f} devices on."
            for name, fraction, size in removed
            if fraction > 0 and size == 0
        ),
    )
