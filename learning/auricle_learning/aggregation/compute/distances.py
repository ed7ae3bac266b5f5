"""Squared distances between all rows of a matrix, from products of matrices and without their cancellation.

||x - y||^2 = ||x||^2 + ||y||^2 - 2 <x, y> is as fast as a machine multiplies matrices, but loses what two vectors near
each other differ by. So rows are taken relative to their mean, and what is then still near is measured again among
itself, and in the end by the differences.
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
Float64Array = NDArray[np.float64]
Rows = NDArray[np.intp]

NEAR = 1e-2
"""A squared distance this small beside the squared norms has less than 14 digits left."""
FEW = 1 << 22
"""Differences that are all taken without looking for anything faster."""
AGAIN = 3
"""How often near rows are measured again by products before they are by their differences."""


class Source(Protocol):
    """What distances are measured on: K rows of P values."""

    weights: FloatArray

    def gram(self, rows: Rows) -> Float64Array:
        """Multiply rows with each other, relative to their mean: (R,) -> (R, R), in float64."""
        ...

    def apart(self, row: int, others: Rows) -> Float64Array:
        """Sum the squared differences of one row from others: (R,), in float64."""
        ...


def squared_distances(source: Source) -> Float64Array:
    """Measure ||row_i - row_j||_2^2 for every pair.

    Returns
    -------
    array (K, K)
        Symmetric, exactly 0 for equal rows, with a relative error below 1e-12; inf past the largest float64.
    """
    count, size = source.weights.shape
    rows = np.arange(count)
    with np.errstate(over="ignore", invalid="ignore"):
        if count * count * size <= FEW:
            return _by_differences(source, rows, np.ones((count, count), np.bool_))
        return _by_products(source, rows, AGAIN)


def _by_products(source: Source, rows: Rows, again: int) -> Float64Array:
    products = source.gram(rows)
    norms = products.diagonal()
    sizes = norms[:, None] + norms
    squares: Float64Array = sizes - 2 * products
    near = ~(squares > NEAR * sizes)  # or not a number
    for group in _groups(near):
        block = np.ix_(group, group)
        nearer = _nearer(source, rows[group], near[block], again if group.size < rows.size else 0)
        squares[block] = np.where(near[block], nearer, squares[block])
    np.fill_diagonal(squares, 0.0)
    return squares


def _nearer(source: Source, rows: Rows, near: NDArray[np.bool_], again: int) -> Float64Array:
    """Measure pairs that are near, each set of equal rows once."""
    first, back = np.unique(_same(source.weights[rows]), return_inverse=True)
    if again and first.size**2 * source.weights.shape[1] > FEW:
        squares = _by_products(source, rows[first], again - 1)
    else:
        wanted = np.zeros((first.size, first.size), np.bool_)
        np.logical_or.at(wanted, (back[:, None], back), near)
        squares = _by_differences(source, rows[first], wanted)
    result: Float64Array = squares[np.ix_(back, back)]
    return result


def _by_differences(source: Source, rows: Rows, wanted: NDArray[np.bool_]) -> Float64Array:
    """Measure the pairs that are wanted; 0 for the others."""
    squares = np.zeros(wanted.shape)
    for one in range(rows.size):
        others = one + 1 + np.flatnonzero(wanted[one, one + 1 :])
        squares[one, others] = squares[others, one] = source.apart(int(rows[one]), rows[others])
    return squares


def _groups(near: NDArray[np.bool_]) -> list[Rows]:
    """Sets of two and more rows that are connected by being near; every row is near itself."""
    todo = set(np.flatnonzero(near.sum(axis=1) > 1).tolist())
    groups = []
    while todo:
        reached: set[int] = set()
        edge = [min(todo)]
        while edge:
            reached.update(edge)
            edge = [row for row in np.flatnonzero(near[edge].any(axis=0)).tolist() if row not in reached]
        todo -= reached
        groups.append(np.array(sorted(reached), np.intp))
    return groups


def _same(weights: FloatArray) -> Rows:
    """(R,) for each row the first one that has the same bytes."""
    first: dict[bytes, int] = {}
    digests = [hashlib.blake2b(row.tobytes()).digest() for row in weights]
    return np.array([first.setdefault(digest, k) for k, digest in enumerate(digests)], np.intp)
