"""Krum (Blanchard et al., https://arxiv.org/abs/1703.02757)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, BoolArray, Cohort, Float64Array
from auricle_learning.aggregation.rules.average import average, fraction_of, ten_digits, unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS, LossOptions, limit_losses, softmax_share

SCORE = "sum of the squared distances to the nearest other clients"


@dataclass(frozen=True, eq=False)
class Ranking:
    """The clients by their distance from those around them."""

    score: Float64Array
    """(K,) in ten significant digits."""
    order: tuple[int, ...]
    """Rows from the lowest score to the highest, ties by id."""
    neighbours: int
    """How many others a score sums over, where there are so many: n - f - 2, at least 1."""
    warnings: tuple[str, ...]


Attackers = Annotated[
    Annotated[int, Meta(ge=0)] | None,
    Meta(description="f, how many clients may lie. None for ⌊0.1 n⌋ and at least 1."),
]


class KrumOptions(LossOptions, frozen=True):
    """Options of `krum` and `multi_krum`."""

    attackers: Attackers = None
    weighting: Annotated[
        Literal["uniform", "fedvsa"],
        Meta(
            description='Among those accepted: "uniform", because sample counts are self-reported, or "fedvsa" for the '
            "softmax of the limited losses; who has no usable loss has weight 0."
        ),
    ] = "uniform"


def krum(cohort: Cohort, options: KrumOptions) -> Aggregate:
    """Take the one update that is nearest to its n - f - 2 nearest others.

    score_i = Σ ||w_i - w_j||² over the n - f - 2 nearest j, the lowest wins (A48); scores equal in ten significant
    digits are a tie, which the id decides.

    Parameters
    ----------
    cohort
        n updates: `weights` (n, P).

    Returns
    -------
    Aggregate
        `weights` (P,), those of one client; `score` (K,). A warning where n < 2f + 3, for which nothing is proved.
        w^t with a flag where nobody counts.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [1.2], [1.3], [1.5], [90.0]], method="krum", attackers=1)
    array([1.2])
    """
    if not cohort.ids:
        return unchanged(cohort)
    return average_best(cohort, rank(cohort, options.attackers), 1, options)


def rank(cohort: Cohort, attackers: int | None) -> Ranking:
    """Score the clients of a cohort that is not empty."""
    count = len(cohort.ids)
    lying = max(1, fraction_of(0.1, count)) if attackers is None else attackers
    neighbours = max(1, count - lying - 2)
    distances = cohort.matrix.squared_distances()
    np.fill_diagonal(distances, -1.0)  # itself comes first and is left out
    distances.sort(axis=1)
    with np.errstate(over="ignore"):
        score = ten_digits(distances[:, 1 : neighbours + 1].sum(axis=1))
    few = f"{count} clients are too few to withstand {lying} attackers; it takes {2 * lying + 3}."
    return Ranking(
        score=score,
        order=tuple(np.argsort(score, kind="stable").tolist()),
        neighbours=neighbours,
        warnings=(few,) if count < 2 * lying + 3 else (),
    )


def average_best(cohort: Cohort, ranking: Ranking, best: int, options: KrumOptions) -> Aggregate:
    """Average the clients with the lowest scores, equally or by the softmax of their losses (FedVSA eq. 8)."""
    accepted = np.zeros(len(cohort.ids), np.bool_)
    accepted[list(ranking.order[:best])] = True
    share = accepted / np.float64(best)
    if options.weighting == "fedvsa":
        limited = limit_losses(cohort.losses, clip=options.clip, limit=options.limit)
        accepted &= ~np.isnan(limited)
        share = softmax_share(limited, accepted) if accepted.any() else np.zeros(accepted.shape)
    return as_a_whole(cohort, accepted, share, score=ranking.score, score_of=SCORE, warnings=ranking.warnings)


def as_a_whole(
    cohort: Cohort,
    kept: BoolArray,
    share: Float64Array,
    *,
    score: Float64Array,
    score_of: str,
    warnings: tuple[str, ...] = (),
) -> Aggregate:
    """Average with one weight (K,) a client in all layers; nobody keeps w^t."""
    columns = len(cohort.layers)
    by_layer = np.repeat(share[:, None], columns, axis=1)
    return Aggregate(
        weights=average(cohort, by_layer),
        ids=cohort.ids,
        layers=cohort.names,
        kept=np.repeat(kept[:, None], columns, axis=1),
        share=by_layer,
        dropped=cohort.dropped,
        flag=None if kept.any() else NO_LOSS,
        warnings=warnings,
        score=score,
        score_of=score_of,
    )
