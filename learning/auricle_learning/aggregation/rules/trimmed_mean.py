"""The coordinate-wise trimmed mean (Yin et al., https://arxiv.org/abs/1803.01498)."""

from __future__ import annotations

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import check_count, check_number
from auricle_learning.aggregation.rules.average import FLOOR_SLACK, fraction_of, unchanged


def check_trimmed_mean(*, beta: float, cut: int | None) -> None:
    """Refuse what would leave no client.

    Raises
    ------
    SettingsError
        `beta` is not in [0, 0.5), or `cut` is not a whole number.
    """
    check_number("beta", beta, below=0.5)
    if beta >= 0.5 - FLOOR_SLACK:
        raise SettingsError(f"beta is {beta!r}; it must be less than 0.5, or nobody is left.")
    check_count("cut", cut)


def trimmed_mean(cohort: Cohort, *, beta: float = 0.1, cut: int | None = None) -> Aggregate:
    """Average every value alone, without the b smallest and the b largest, b = ⌊βK⌋, all others equally.

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P).
    beta
        β, at least 0 and less than 0.5.
    cut
        b itself, in place of β. Where 2b is K or more, the median is taken, with a warning.

    Returns
    -------
    Aggregate
        `weights` (P,); `share` (K, L) is the mean over a layer's values of the weight that a client's value had. A
        warning where β is too small to cut anything off in this cohort. w^t with a flag where the cohort is empty.

    Raises
    ------
    SettingsError
        An option is not allowed.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [2.0], [4.0], [90.0]], method="trimmed-mean", beta=0.25)
    array([3.])
    """
    check_trimmed_mean(beta=beta, cut=cut)
    count = len(cohort.ids)
    if not count:
        return unchanged(cohort)
    ends = fraction_of(beta, count) if cut is None else cut
    if 2 * ends >= count:
        median = f"cut {ends} at both ends leaves nobody of {count}: the median is taken."
        return middle_mean(cohort, (count - 1) // 2, (median,))
    if cut is None and beta > 0 and not ends:
        return middle_mean(cohort, 0, (f"beta {beta:g} cuts nothing off in a cohort of {count}; it is the mean.",))
    return middle_mean(cohort, ends)


def middle_mean(cohort: Cohort, cut: int, warnings: tuple[str, ...] = ()) -> Aggregate:
    """Average every value without the `cut` smallest and largest, of a cohort that is not empty."""
    weights, share = cohort.matrix.middle(cut, cohort.spans)
    return Aggregate(
        weights=weights.astype(cohort.start.dtype),
        ids=cohort.ids,
        layers=cohort.names,
        kept=share > 0,
        share=share,
        dropped=cohort.dropped,
        warnings=warnings,
    )
