"""The coordinate-wise trimmed mean (Yin et al., https://arxiv.org/abs/1803.01498)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import Options
from auricle_learning.aggregation.rules.average import FLOOR_SLACK, fraction_of, unchanged


class TrimmedMeanOptions(Options, frozen=True):
    """Options of `trimmed_mean`.

    Raises
    ------
    SettingsError
        β would leave no client.
    """

    beta: Annotated[float, Meta(ge=0, lt=0.5, description="β, the fraction cut off at each end.")] = 0.1
    cut: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="b itself, in place of β. Where 2b is K or more, the median is taken, with a warning."),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta >= 0.5 - FLOOR_SLACK:
            raise SettingsError(f"beta is {self.beta!r}; it must be less than 0.5, or nobody is left.")


def trimmed_mean(cohort: Cohort, options: TrimmedMeanOptions) -> Aggregate:
    """Average every value alone, without the b smallest and the b largest, b = ⌊βK⌋, all others equally.

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P).

    Returns
    -------
    Aggregate
        `weights` (P,); `share` (K, L) is the mean over a layer's values of the weight that a client's value had. A
        warning where β is too small to cut anything off in this cohort. w^t with a flag where the cohort is empty.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [2.0], [4.0], [90.0]], method="trimmed-mean", beta=0.25)
    array([3.])
    """
    beta, cut, count = options.beta, options.cut, len(cohort.ids)
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
