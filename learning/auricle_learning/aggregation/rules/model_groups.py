"""Groups of clients by how they moved and what they activate (MuPFL, eq. 7-15), beside PKCF's features (eq. 16-20)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort, CohortError, Float64Array
from auricle_learning.aggregation.extras import Clusters
from auricle_learning.aggregation.feature_synthesis import Synthesised, synthesised
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.clustering import Labels, clusters, cosines
from auricle_learning.aggregation.rules.fedavg import FedAvgOptions
from auricle_learning.aggregation.rules.weighting import WeightedOptions, client_share, of_clients, update_products

SCORE = "number of the client's cluster"


class GroupOptions(FedAvgOptions, frozen=True):
    """Options of the groups; p_i are the weights of `weighting`."""

    alpha: Annotated[
        float, Meta(ge=0, le=1, description="α, the part of the moves in the similarity; the maps have the rest.")
    ] = 0.5
    max_clusters: Annotated[int, Meta(ge=2, description="κ_max, of which the best number is taken (eq. 13).")] = 6
    clusters: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="κ, the same in all rounds (Tables I and V). None for the best number up to `max_clusters`."),
    ] = None
    group_mean: Annotated[
        Literal["uniform", "samples"],
        Meta(
            description='What clients weigh in the move of their group: "uniform" (eq. 14), or "samples", which is '
            "FedAvg within each group (Table I)."
        ),
    ] = "uniform"


def clustered(cohort: Cohort, rule: str, options: GroupOptions, *, features: int | None) -> Aggregate:
    """What `acmu` makes of a round, for a rule of any name that keeps PKCF's features in its state.

    Parameters
    ----------
    cohort
        As of `acmu`.
    rule
        Its name.
    features
        m of PKCF; None: without.
    """
    if not cohort.ids:
        return replace(unchanged(cohort), state=None if features is None else cohort.extras.state)
    made = Synthesised(None, None) if features is None else synthesised(cohort, rule, m=features)
    found = _grouped(cohort, options)
    return replace(found, state=made.state, synthesis=made.found, warnings=(*found.warnings, *made.warnings))


def _grouped(cohort: Cohort, options: GroupOptions) -> Aggregate:
    """The clients in groups, and the mean of what these give (eq. 9-15)."""
    starts = cohort.extras.starts
    if starts is not None and starts.shape != cohort.weights.shape:
        raise CohortError("the models that the clients started from are not of this model's size.")
    begun = cohort.start.astype(np.float64) if starts is None else starts
    moves = cohort.weights.astype(np.float64) - begun
    similarity = _similarity(cohort, moves, options.alpha)
    labels, value = clusters(similarity, max_clusters=options.max_clusters, number=options.clusters)
    mean = _group_share(cohort, labels, options)
    models = begun + np.einsum("ij,jp->ip", mean, moves)
    weight = client_share(cohort, WeightedOptions(weighting=options.weighting))
    return of_clients(
        cohort,
        np.einsum("i,ip->p", weight, models),
        np.einsum("i,ij->j", weight, mean),
        clusters=Clusters(tuple(labels.tolist()), value, models),
        score=labels.astype(np.float64),
        score_of=SCORE,
    )


def _group_share(cohort: Cohort, labels: Labels, options: GroupOptions) -> Float64Array:
    """(K, K) what each client's move counts in that of another's group; of a group without samples all alike."""
    together = (labels[:, None] == labels).astype(np.float64)
    counts = together * (cohort.samples if options.group_mean == "samples" else 1.0)
    sums = counts.sum(axis=1, keepdims=True)
    known = np.where(sums > 0, counts, together)
    share: Float64Array = known / known.sum(axis=1, keepdims=True)
    return share


def _similarity(cohort: Cohort, moves: Float64Array, alpha: float) -> Float64Array:
    """S (K, K)."""
    products = update_products(cohort) if cohort.extras.starts is None else np.einsum("ip,jp->ij", moves, moves)
    by_moves, maps = cosines(products), cohort.extras.maps
    if maps is None:
        return by_moves
    return alpha * by_moves + (1 - alpha) * cosines(np.einsum("ip,jp->ij", maps, maps))
