"""What rules compute on the uploads of a cohort: a few primitives over (K, P) values, here with NumPy.

Everything is accumulated in float64 and in one order: that of the rows, for every column by itself; squares in sixteen
sums of every sixteenth column of a piece. The pieces depend on nothing but the layers. So the bits of a result depend
neither on threads nor on the processor, and the C library (`auricle_learning.aggregation.compute.matrix_native`) gives
the same ones; products of two rows alone are BLAS's here. The primitives are the same on an accelerator, see
`auricle_learning.aggregation.compute.matrix_torch`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np

from auricle_learning.aggregation.compute.distances import Float64Array, FloatArray, Rows, squared_distances
from auricle_learning.aggregation.compute.pieces import PIECE, Piece, Spans, neighbours, pieces_of

ROWS = 8
"""Rows that NumPy has in float64 at a time: with a piece's columns they stay near a core."""
BLOCK, DEEP = 32, 256
"""Sides and depth of a product so small that BLAS leaves it to one thread."""
SLOTS = 4
"""Partial sums of products; as many threads can add them up at a time, and always in the same order."""
SMALL = 1 << 19
"""Values below which another thread costs more than it saves."""


class Matrix(Protocol):
    """K uploads of P values, and what rules ask of them."""

    def weighted_sum(self, share: Float64Array, spans: Spans) -> Float64Array:
        """Sum the rows with weights of their own in each layer: (K, L) -> (P,); 0 where no weight is."""
        ...

    def layer_norms(
        self, spans: Spans, *, centre: Float64Array | None = None, share: Float64Array | None = None
    ) -> Float64Array:
        """Measure ||row - centre||_2 in each layer: (K, L).

        The centre is (P,) values, or the sum of the rows with the weights `share` (K,), or without either their mean.
        """
        ...

    def middle(self, cut: int, spans: Spans) -> tuple[Float64Array, Float64Array]:
        """Average, value by value, what is left without the `cut` smallest and largest: (P,), 2 cut < K.

        The other answer is (K, L): the mean over a layer's values of the weight with which a row counted. Rows that tie
        with the smallest or largest value left share its weight.
        """
        ...

    def squared_distances(self) -> Float64Array:
        """Measure ||row_i - row_j||_2^2 for every pair: (K, K), exactly 0 for rows that are equal."""
        ...


_Job = TypeVar("_Job")
_Made = TypeVar("_Made")
Opener = Callable[[FloatArray], Matrix]
"""Gives the primitives over an array (K, P)."""


def usable_threads() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class NumpyMatrix:
    """The primitives on this machine's processor.

    Parameters
    ----------
    weights
        (K, P), K > 0, float32 or float64; finite. Not written to.
    threads
        At most so many; None for one a core.
    """

    def __init__(self, weights: FloatArray, threads: int | None = None) -> None:
        self.weights = weights
        self._threads = threads or usable_threads()
        self._wide = weights.dtype == np.float64  # may overflow and underflow where float32 cannot

    def weighted_sum(self, share: Float64Array, spans: Spans) -> Float64Array:
        """See `Matrix.weighted_sum`."""
        result = np.zeros(self.weights.shape[1])
        self.sum_layers(share, pieces_of(spans, PIECE), result)
        return result

    def layer_norms(
        self, spans: Spans, *, centre: Float64Array | None = None, share: Float64Array | None = None
    ) -> Float64Array:
        """See `Matrix.layer_norms`."""
        count, size = self.weights.shape
        middle = np.empty(size) if centre is None else np.ascontiguousarray(centre, np.float64)
        weight = None if share is None else np.ascontiguousarray(share, np.float64)

        def work(near: list[Piece]) -> list[Float64Array]:
            if weight is not None:
                self.sum_rows(np.arange(count), weight, Piece(near[0].layer, near[0].start, near[-1].stop), middle)
            return [self.square_rows(piece, middle) for piece in near]

        groups = neighbours(pieces_of(spans, PIECE))
        spread = centre is None and share is None
        sums = self.spread_rows(groups, middle) if spread else self._run(work, groups)
        total = np.zeros((count, len(spans)))
        with np.errstate(over="ignore"):
            for group, of_group in zip(groups, sums, strict=True):
                for piece, squares in zip(group, of_group, strict=True):
                    total[:, piece.layer] += squares
        norms: Float64Array = np.sqrt(total)
        if self._wide:
            for k, layer in np.argwhere(~((total > 1e-200) & (total < math.inf))):
                with np.errstate(over="ignore", invalid="ignore"):
                    parts = [_norm(self.weights[k, span] - middle[span]) for span in spans[layer]]
                norms[k, layer] = math.hypot(*parts)
        return norms

    def middle(self, cut: int, spans: Spans) -> tuple[Float64Array, Float64Array]:
        """See `Matrix.middle`."""
        count, size = self.weights.shape
        result = np.empty(size)

        def work(piece: Piece) -> Float64Array:
            block = self.weights[:, piece.columns]
            ranked = np.array(block.T, order="C")  # always a copy: the transpose may be contiguous as it is
            ranked.sort(axis=1)
            kept = ranked[:, cut : count - cut]
            result[piece.columns] = self._mean_of_sorted(kept)
            return _weight(block, kept[:, 0].copy(), kept[:, -1].copy(), kept.shape[1])

        pieces = pieces_of(spans, max(256, min(PIECE, SMALL // count)))
        share = np.zeros((count, len(spans)))
        for piece, part in zip(pieces, self._run(work, pieces), strict=True):
            share[:, piece.layer] += part
        return result, share / [max(1, sum(span.stop - span.start for span in parts)) for parts in spans]

    def squared_distances(self) -> Float64Array:
        """See `Matrix.squared_distances`."""
        return squared_distances(self)

    def gram(self, rows: Rows) -> Float64Array:
        """See `auricle_learning.aggregation.compute.distances.Source`."""
        count, size = rows.size, self.weights.shape[1]
        centre = self.mean_of(rows)

        def work(slot: int) -> Float64Array:
            total = np.zeros((count, count))
            for first in range(slot * DEEP, size, SLOTS * DEEP):
                part = slice(first, first + DEEP)
                block = self.weights[rows, part] - centre[part]
                for start in range(0, count, BLOCK):
                    beside, right = slice(start, start + BLOCK), block[start : start + BLOCK].T
                    above = np.matmul(block[:start].reshape(start // BLOCK, BLOCK, block.shape[1]), right)
                    total[:start, beside] += above.reshape(start, right.shape[1])
                    total[beside, beside] += block[beside] @ right
            return total

        upper = np.triu(sum(self._run(work, range(SLOTS)), np.zeros((count, count))))
        result: Float64Array = upper + np.triu(upper, 1).T
        return result

    def apart(self, row: int, others: Rows) -> Float64Array:
        """See `auricle_learning.aggregation.compute.distances.Source`."""
        result = np.zeros(others.size)
        for piece in pieces_of([(slice(0, self.weights.shape[1]),)], PIECE):
            block = self.weights[others, piece.columns].astype(np.float64)
            block -= self.weights[row, piece.columns]
            result += np.square(block, out=block).sum(axis=1)
        return result

    def sum_layers(self, share: Float64Array, pieces: Sequence[Piece], into: Float64Array) -> None:
        """Write the sums of the rows, weighted by layer (K, L), into the columns of pieces of `into` (P,)."""
        counting = [np.flatnonzero(column) for column in share.T]

        def work(piece: Piece) -> None:
            rows = counting[piece.layer]
            self.sum_rows(rows, share[rows, piece.layer], piece, into)

        self._run(work, pieces)

    def sum_rows(self, rows: Rows, share: Float64Array, piece: Piece, into: Float64Array) -> None:
        """Write the weighted sum of some rows, (R,) and (R,), into the columns of a piece of `into` (P,)."""
        total = np.zeros((1 + ROWS, piece.stop - piece.start))
        neighbours = rows.size > 0 and rows[-1] - rows[0] == rows.size - 1  # else they are copied first
        for first in range(0, rows.size, ROWS):
            some = share[first : first + ROWS, None]
            part, at = total[: 1 + len(some)], rows[first]
            chosen = slice(at, at + len(some)) if neighbours else rows[first : first + ROWS]
            with np.errstate(over="ignore", invalid="ignore"):
                np.multiply(self.weights[chosen, piece.columns], some, out=part[1:])
                total[0] = np.add.reduce(part, axis=0)
        into[piece.columns] = total[0]

    def square_rows(self, piece: Piece, centre: Float64Array) -> Float64Array:
        """Sum the squared differences of each row from the centre (P,) in the columns of a piece: (K,)."""
        squares = np.empty(len(self.weights))
        whole = (piece.stop - piece.start) // 16 * 16
        for first in range(0, squares.size, ROWS):
            with np.errstate(over="ignore", invalid="ignore"):
                block = self.weights[first : first + ROWS, piece.columns] - centre[piece.columns]
                block *= block
                lanes = np.add.reduce(block[:, :whole].reshape(len(block), -1, 16), axis=1)
                s = (lanes[:, :8] + lanes[:, 8:]).T
                rest = np.zeros(len(block))
                for column in block[:, whole:].T:
                    rest += column
                squares[first : first + ROWS] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) + rest
        return squares

    def spread_rows(self, groups: Sequence[list[Piece]], into: Float64Array) -> Sequence[Sequence[Float64Array]]:
        """Write the mean of all rows into the columns of neighbouring pieces of `into` (P,); `square_rows` of each."""
        count = len(self.weights)
        everyone, weight = np.arange(count), np.ones(count)

        def work(near: list[Piece]) -> list[Float64Array]:
            whole = Piece(near[0].layer, near[0].start, near[-1].stop)
            self.sum_rows(everyone, weight, whole, into)
            into[whole.columns] /= count
            self._mend_mean(whole, into)
            return [self.square_rows(piece, into) for piece in near]

        return self._run(work, groups)

    def mean_of(self, rows: Rows) -> Float64Array:
        """The mean of some rows: (P,)."""
        size = self.weights.shape[1]
        centre, weight = np.empty(size), np.ones(rows.size)
        self._run(lambda piece: self.sum_rows(rows, weight, piece, centre), pieces_of([(slice(0, size),)], PIECE))
        centre /= rows.size
        return centre

    def _mend_mean(self, piece: Piece, mean: Float64Array) -> None:
        """Add up shares of the rows where the sum of the rows was past the largest float64."""
        if self._wide and not np.isfinite(mean[piece.columns]).all():
            part = self.weights[:, piece.columns] / len(self.weights)
            mean[piece.columns] = part.sum(axis=0, dtype=np.float64)

    def _mean_of_sorted(self, kept: FloatArray) -> Float64Array:
        left = kept.shape[1]
        mean: Float64Array = np.einsum("ck->c", kept.astype(np.float64)) / left
        if self._wide and not np.isfinite(mean).all():
            mean = (kept / left).sum(axis=1)
        return mean

    def _run(self, work: Callable[[_Job], _Made], jobs: Sequence[_Job]) -> list[_Made]:
        """Do all jobs; a thread takes the next one when it is through. What they gave, in the order of the jobs."""
        threads = min(self._threads, len(jobs)) if self.weights.size >= SMALL else 1
        if threads < 2:
            return [work(job) for job in jobs]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, jobs))


def _weight(block: FloatArray, least: FloatArray, most: FloatArray, left: int) -> Float64Array:
    """(K,) sum over columns of the weight of each row's value; 1 / left where no value ties with the last ones left."""
    inside = (block >= least) & (block <= most)
    times = np.add.reduce(inside.view(np.uint8), axis=1, dtype=np.uint16)  # a piece is narrower than 65,536
    if times.sum(dtype=np.int64) == left * inside.shape[1]:
        weight: Float64Array = times / np.float64(left)
    else:
        weight = np.einsum("kc,c->k", inside.astype(np.float64), 1 / np.count_nonzero(inside, axis=0))
    return weight


def _norm(vector: Float64Array) -> float:
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0 or math.isinf(largest):
        return largest
    return largest * math.sqrt(float(np.square(vector / largest).sum()))
