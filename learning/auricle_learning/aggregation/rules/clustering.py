"""Which clients belong together, by k-means on similarities, with the number of groups chosen by silhouette."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle_learning.aggregation.cohort import Float64Array
from auricle_learning.aggregation.rules.average import ten_digits

Labels = NDArray[np.int64]
MOST_STEPS = 100


def cosines(products: Float64Array) -> Float64Array:
    """(K, K) cosines of vectors with these scalar products; 0 with a vector of length 0, 1 of each with itself."""
    norms = np.sqrt(np.maximum(0.0, products.diagonal()))
    lengths = np.outer(norms, norms)
    found: Float64Array = np.where(lengths > 0, products / np.where(lengths > 0, lengths, 1.0), 0.0)
    found = np.clip(found, -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return found


def clusters(
    similarity: Float64Array, *, max_clusters: int = 6, number: int | None = None
) -> tuple[Labels, float | None]:
    """Group clients; the number of groups from 2 to min(`max_clusters`, K - 1) has the largest mean silhouette.

    Parameters
    ----------
    similarity
        S (K, K), 1 on the diagonal; distances are 1 - S (A23).
    max_clusters
        κ_max, at least 2; of numbers equally good the smallest is taken.
    number
        Of groups, at least 1, instead of the best one; as many as clients where these are fewer.

    Returns
    -------
    labels, silhouette
        (K,) from 0 in the order of the clients, and the mean silhouette; one group has None, and so have up to two
        clients without a `number`.
    """
    count = len(similarity)
    if number is not None and min(number, count) > 1:
        labels = k_means(similarity, min(number, count))
        return labels, silhouette(1.0 - similarity, labels)
    if number is not None:
        max_clusters = 1
    best: tuple[Labels, float | None] = np.zeros(count, np.int64), None
    for groups in range(2, min(max_clusters, count - 1) + 1):
        labels = k_means(similarity, groups)
        value = float(ten_digits(np.array([silhouette(1.0 - similarity, labels)]))[0])
        if best[1] is None or value > best[1]:
            best = labels, value
    return best


def silhouette(distance: Float64Array, labels: Labels) -> float:
    """Mean over clients of (b - a) / max(a, b) (MuPFL eq. 9-12): 0 of one that is alone, and where max(a, b) = 0.

    a is the mean distance to the others of the own group, b the least mean distance to another group.
    """
    groups = np.unique(labels)
    members = (labels[:, None] == groups).astype(np.float64)
    sums, sizes = distance @ members, members.sum(axis=0)
    own = np.searchsorted(groups, labels)
    rows = np.arange(len(labels))
    inside = sums[rows, own] / np.maximum(1, sizes[own] - 1)
    means = sums / sizes
    means[rows, own] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    usable = (sizes[own] > 1) & (larger > 0) & np.isfinite(larger)
    return float(np.where(usable, (outside - inside) / np.where(usable, larger, 1.0), 0.0).mean())


def k_means(similarity: Float64Array, groups: int) -> Labels:
    """Euclidean k-means on points z with ⟨z_i, z_j⟩ = S_ij, for which ‖z_i - z_j‖² = 2 (1 - S_ij) (A24).

    From every client in turn, with the farthest ones after it, by Lloyd's steps; the start with the least inertia
    wins, of equal ones the first.
    """
    best, least = np.zeros(len(similarity), np.int64), np.inf
    for first in range(len(similarity)):
        labels, inertia = _lloyd(similarity, _farthest_first(similarity, first, groups))
        inertia = float(ten_digits(np.array([inertia]))[0])
        if inertia < least:
            best, least = labels, inertia
    order = {label: number for number, label in enumerate(dict.fromkeys(best.tolist()))}
    return np.array([order[label] for label in best.tolist()], np.int64)


def _farthest_first(similarity: Float64Array, first: int, groups: int) -> list[int]:
    chosen = [first]
    while len(chosen) < groups:
        away = ten_digits(2 - 2 * similarity[chosen].max(axis=0))
        away[chosen] = -1.0
        chosen.append(int(away.argmax()))
    return chosen


def _lloyd(similarity: Float64Array, seeds: list[int]) -> tuple[Labels, float]:
    """Labels, and the sum of squared distances to the groups' middles, from seeds that are the first middles."""
    groups, count = len(seeds), len(similarity)
    squares = _squares(similarity, np.eye(count)[seeds])
    labels = np.full(count, -1)
    for _ in range(MOST_STEPS):
        new = _rounded(squares).argmin(axis=1)
        _fill_empty(new, squares, groups)
        if (new == labels).all():
            break
        labels = new
        members = (np.arange(groups)[:, None] == labels).astype(np.float64)
        squares = _squares(similarity, members / members.sum(axis=1, keepdims=True))
    return labels, float(squares[np.arange(count), labels].sum())


def _rounded(squares: Float64Array) -> Float64Array:
    return ten_digits(squares.ravel()).reshape(squares.shape)


def _squares(similarity: Float64Array, middles: Float64Array) -> Float64Array:
    """(K, κ) squared distances to middles that are means of clients with these weights (κ, K)."""
    along = similarity @ middles.T
    own = np.einsum("gk,kg->g", middles, along)
    return np.asarray(np.maximum(0.0, similarity.diagonal()[:, None] - 2 * along + own))


def _fill_empty(labels: Labels, squares: Float64Array, groups: int) -> None:
    """Give each group that has nobody the client that is farthest in a group of several."""
    for group in range(groups):
        if not (labels == group).any():
            sizes = np.bincount(labels, minlength=groups)
            away = squares[np.arange(len(labels)), labels].copy()
            away[sizes[labels] < 2] = -1.0
            labels[int(ten_digits(away).argmax())] = group
