"""Divide and conquer, DnC (Shejwalkar and Houmansadr 2021, https://doi.org/10.14722/ndss.2021.24498)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle_learning.aggregation.cohort import Aggregate, Cohort, Float64Array
from auricle_learning.aggregation.compute.matrix import NumpyMatrix
from auricle_learning.aggregation.options import check_count, check_number
from auricle_learning.aggregation.rules.average import FLOOR_SLACK, ascending, fraction_of, ten_digits, unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.weighting import check_weighting, client_share, moved, of_clients

SCORE = "squared projection on the direction in which the updates differ most"
DIGITS = 10
"""Decimals to which a projection is known, relative to all of them together."""


def check_dnc(
    *,
    attackers: int | None,
    c: float,
    n_iters: int,
    b: int,
    seed: int,
    weighting: str,
    clip: float,
    limit: str,
) -> None:
    """Refuse numbers with which nothing could be drawn or left out.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_count("attackers", attackers)
    check_number("c", c)
    check_count("n_iters", n_iters, least=1, optional=False)
    check_count("b", b, least=1, optional=False)
    check_count("seed", seed, optional=False)
    check_weighting(weighting=weighting, clip=clip, limit=limit)


def dnc(
    cohort: Cohort,
    *,
    attackers: int | None = None,
    c: float = 1.0,
    n_iters: int = 1,
    b: int = 10_000,
    seed: int = 0,
    weighting: str = "uniform",
    clip: float = 5.0,
    limit: str = "clamp",
) -> Aggregate:
    """Leave out the updates that lie farthest along the direction in which all differ most.

    Repeated `n_iters` times: of min(b, P) random coordinates, s_i = ⟨Δ_i - μ, v⟩² with v the top right singular vector
    of the centred updates; the n - ⌊c f⌋ smallest are kept. The result is the mean over those kept every time (A50),
    or, where nobody was, over those kept most often.

    Parameters
    ----------
    cohort
        n updates: `weights` (n, P).
    attackers
        f, how many clients may lie. None for ⌊0.1 n⌋ and at least 1.
    c, n_iters, b
        As above.
    seed
        Decides the coordinates, together with the number of the round where one is given.
    weighting, clip, limit
        "uniform", "samples", or "fedvsa" for the softmax of the limited losses over those kept.

    Returns
    -------
    Aggregate
        `weights` (P,); `score` (n,) the largest s_i of all repetitions. w^t with a flag where nobody counts.

    Raises
    ------
    SettingsError
        An option is not allowed.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [2.0], [3.0], [90.0]], method="dnc", attackers=1)
    array([2.])
    """
    check_dnc(attackers=attackers, c=c, n_iters=n_iters, b=b, seed=seed, weighting=weighting, clip=clip, limit=limit)
    if not cohort.ids:
        return unchanged(cohort)
    count, size = cohort.weights.shape
    lying = max(1, fraction_of(0.1, count)) if attackers is None else attackers
    left = max(1, count - int(c * lying + FLOOR_SLACK))
    rng = np.random.default_rng([seed, cohort.extras.round])
    times, score = np.zeros(count, np.int64), np.zeros(count)
    for _ in range(n_iters):
        chosen = slice(None) if b >= size else np.sort(rng.choice(size, b, replace=False))
        projected = projections(cohort, chosen)
        times[ascending(projected)[:left]] += 1
        score = np.maximum(score, projected)
    kept = times == times.max()
    share = client_share(cohort, weighting, clip=clip, limit=limit, kept=kept)
    if not share.any():
        return unchanged(cohort, NO_LOSS)
    return of_clients(cohort, moved(cohort, share), share, score=score, score_of=SCORE)


def projections(cohort: Cohort, chosen: slice | NDArray[np.int64]) -> Float64Array:
    """(n,) s_i on the chosen coordinates: λ u_i², with (λ, u) the top eigenpair of the products of centred updates."""
    part = np.ascontiguousarray(cohort.weights[:, chosen])
    products = NumpyMatrix(part).gram(np.arange(len(part)))
    largest = float(np.abs(products).max())
    if largest == 0.0:
        return np.zeros(len(part))
    values, vectors = np.linalg.eigh(products / largest)
    along = np.round(np.square(vectors[:, -1]), DIGITS)  # what is below depends on how the sums were split
    return ten_digits(np.round(max(0.0, float(values[-1])), DIGITS) * along * largest)
