"""Multi-Krum (Blanchard et al., https://arxiv.org/abs/1703.02757)."""

from __future__ import annotations

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.krum import KrumOptions, average_best, rank


def multi_krum(cohort: Cohort, options: KrumOptions) -> Aggregate:
    """Average the n - f - 2 updates with the lowest scores of Krum, taken in one pass (A49).

    Equally, because sample counts are self-reported.

    Parameters
    ----------
    cohort
        n updates: `weights` (n, P).

    Returns
    -------
    Aggregate
        As of `krum`, with up to n - f - 2 clients, at least one.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [1.2], [1.3], [1.5], [90.0]], method="multi-krum", attackers=1)
    array([1.25])
    """
    if not cohort.ids:
        return unchanged(cohort)
    ranking = rank(cohort, options.attackers)
    best = min(ranking.neighbours, len(cohort.ids))  # m is n - f - 2 as well
    return average_best(cohort, ranking, best, options)
