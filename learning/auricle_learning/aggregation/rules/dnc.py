"""Divide and conquer, DnC (Shejwalkar and Houmansadr 2021, https://doi.org/10.14722/ndss.2021.24498)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from auricle_learning.aggregation.cohort import Aggregate, Cohort, Float64Array
from auricle_learning.aggregation.compute.matrix import NumpyMatrix
from auricle_learning.aggregation.options import Count, NotNegative
from auricle_learning.aggregation.rules.average import FLOOR_SLACK, ascending, fraction_of, ten_digits, unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS
from auricle_learning.aggregation.rules.krum import Attackers
from auricle_learning.aggregation.rules.weighting import WeightedOptions, Weighting, client_share, moved, of_clients

SCORE = "squared projection on the direction in which the updates differ most"
DIGITS = 10
"""Decimals to which a projection is known, relative to all of them together."""


class DncOptions(WeightedOptions, frozen=True):
    """Options of `dnc`; what is weighed are the clients that are kept."""

    attackers: Attackers = None
    c: Annotated[NotNegative, Meta(description="How many are left out for each that may lie.")] = 1.0
    n_iters: Annotated[Count, Meta(description="Repetitions, each of coordinates of its own.")] = 1
    b: Annotated[Count, Meta(description="Coordinates that are drawn.")] = 10_000
    seed: Annotated[
        int,
        Meta(ge=0, description="Decides the coordinates, with the number of the round where one is given."),
    ] = 0
    weighting: Weighting = "uniform"


def dnc(cohort: Cohort, options: DncOptions) -> Aggregate:
    """Leave out the updates that lie farthest along the direction in which all differ most.

    Repeated `n_iters` times: of min(b, P) random coordinates, s_i = ⟨Δ_i - μ, v⟩² with v the top right singular vector
    of the centred updates; the n - ⌊c f⌋ smallest are kept. The result is the mean over those kept every time (A50),
    or, where nobody was, over those kept most often.

    Parameters
    ----------
    cohort
        n updates: `weights` (n, P).

    Returns
    -------
    Aggregate
        `weights` (P,); `score` (n,) the largest s_i of all repetitions. w^t with a flag where nobody counts.

    Examples
    --------
    >>> from auricle_learning import average
    >>> average([[1.0], [2.0], [3.0], [90.0]], method="dnc", attackers=1)
    array([2.])
    """
    if not cohort.ids:
        return unchanged(cohort)
    count, size = cohort.weights.shape
    lying = max(1, fraction_of(0.1, count)) if options.attackers is None else options.attackers
    left = max(1, count - int(options.c * lying + FLOOR_SLACK))
    rng = np.random.default_rng([options.seed, cohort.extras.round])
    times, score = np.zeros(count, np.int64), np.zeros(count)
    for _ in range(options.n_iters):
        chosen = slice(None) if options.b >= size else np.sort(rng.choice(size, options.b, replace=False))
        projected = projections(cohort, chosen)
        times[ascending(projected)[:left]] += 1
        score = np.maximum(score, projected)
    kept = times == times.max()
    share = client_share(cohort, options, kept=kept)
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
