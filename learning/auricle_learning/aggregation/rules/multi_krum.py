"""Multi-Krum (Blanchard et al., https://arxiv.org/abs/1703.02757)."""

from __future__ import annotations

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.krum import average_best, check_krum, rank


def multi_krum(
    cohort: Cohort, *, attackers: int | None = None, weighting: str = "uniform", clip: float = 5.0, limit: str = "clamp"
) -> Aggregate:
    """Average the n - f - 2 updates with the lowest scores of Krum, taken in one pass (A49).

    Equally, because sample counts are self-reported.

    Parameters
    ----------
    cohort
        n updates: `weights` (n, P).
    attackers
        f, how many clients may lie. None for ⌊0.1 n⌋ and at least 1.
    weighting
        "uniform", or "fedvsa" for the softmax of the limited losses over those accepted; who has no usable loss has
        weight 0.
    clip, limit
        As in `fedvsa`, with that weighting.

    Returns
    -------
    Aggregate
        As of `krum`, with up to n - f - 2 clients, at least one.

    Raises
    ------
    SettingsError
        An option is not allowed.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [1.2], [1.3], [1.5], [90.0]], method="multi-krum", attackers=1)
    array([1.25])
    """
    check_krum(attackers=attackers, weighting=weighting, clip=clip, limit=limit)
    if not cohort.ids:
        return unchanged(cohort)
    ranking = rank(cohort, attackers)
    best = min(ranking.neighbours, len(cohort.ids))  # m is n - f - 2 as well
    return average_best(cohort, ranking, best, weighting=weighting, clip=clip, limit=limit)
