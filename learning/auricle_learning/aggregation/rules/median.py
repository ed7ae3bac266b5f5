"""The coordinate-wise median (Yin et al., https://arxiv.org/abs/1803.01498)."""

from __future__ import annotations

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.trimmed_mean import middle_mean


def median(cohort: Cohort) -> Aggregate:
    """Take the median of every value alone; of an even number of clients the mean of the middle two (A47).

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P).

    Returns
    -------
    Aggregate
        `weights` (P,); `share` (K, L) is the part of a layer that a client decided. w^t with a flag where the cohort
        is empty.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [2.0], [90.0]], method="median")
    array([2.])
    """
    if not cohort.ids:
        return unchanged(cohort)
    return middle_mean(cohort, (len(cohort.ids) - 1) // 2)
