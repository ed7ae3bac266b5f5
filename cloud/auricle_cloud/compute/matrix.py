"""What rules compute on the uploads of a cohort: a few primitives over (K, P) values, here with NumPy.

Everything is accumulated in float64. The columns are cut into pieces that stay in a core's cache, at places that depend
on nothing but the shape; threads take whole pieces and the parts are put together in a fixed order, and products of
matrices are so small that BLAS does not split them. So the bits of a result do not depend on how many threads there
are. The primitives are the same on an accelerator, see `auricle_cloud.compute.matrix_torch`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from auricle_cloud.compute.distances import Float64Array, FloatArray, Rows, squared_distances

Spans = Sequence[tuple[slice, ...]]
"""The spans of each layer in the flat vector."""

TILE = 1 << 18
"""Float64 values that a thread works on at a time: 2 MiB, about a core's caches."""
WIDEST = 8192
"""Columns of a piece. A dot product of more than 10,000 values may be split between the threads of BLAS."""
SMALL = 1 << 19
"""Values below which another thread costs more than it saves."""
PRODUCT = 1 << 18
"""Multiplications of a product of matrices that BLAS leaves to one thread."""
SLOTS = 4
"""Partial sums of products; as many threads can add them up at a time, and always in the same order."""


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
Opener = Callable[[FloatArray], Matrix]
"""Gives the primitives over an array (K, P)."""


@dataclass(frozen=True)
class Piece:
    """Some columns of one layer."""

    layer: int
    start: int
    stop: int

    @property
    def width(self) -> int:
        """How many columns."""
        return self.stop - self.start


def pieces_of(spans: Spans, width: int) -> list[Piece]:
    """Cut every layer's spans into pieces of at most `width` columns, in the order of the layers."""
    return [
        Piece(layer, start, min(start + width, span.stop))
        for layer, parts in enumerate(spans)
        for span in parts
        for start in range(span.start, span.stop, width)
    ]


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
        pieces = pieces_of(spans, 2 * WIDEST)

        def work(piece: Piece, tile: Float64Array) -> None:
            column = share[:, piece.layer]
            counting = np.flatnonzero(column)
            whole = counting.size == len(column)
            into = result[piece.start : piece.stop]
            for rows in _groups(counting.size, piece.width):
                chosen = rows if whole else counting[rows]
                block = _tile(tile, rows, piece)
                block[...] = self.weights[chosen, piece.start : piece.stop]
                into += np.einsum("k,kc->c", column[chosen], block)

        self._run(pieces, work)
        return result

    def layer_norms(
        self, spans: Spans, *, centre: Float64Array | None = None, share: Float64Array | None = None
    ) -> Float64Array:
        """See `Matrix.layer_norms`."""
        count = len(self.weights)
        fitting = TILE // count
        pieces = pieces_of(spans, min(fitting, WIDEST) if fitting >= 1024 else WIDEST)
        numbers = {piece: number for number, piece in enumerate(pieces)}
        squares = np.empty((len(pieces), count))
        middle = np.empty(self.weights.shape[1]) if centre is None else centre

        def work(piece: Piece, tile: Float64Array) -> None:
            groups = list(_groups(count, piece.width))
            around = middle[piece.start : piece.stop]
            if centre is None:
                around[:] = self._mean(piece, groups, tile, share)
            for rows in groups:
                block = _tile(tile, rows, piece)
                if centre is not None or len(groups) > 1:  # else the mean has left it there
                    block[...] = self.weights[rows, piece.start : piece.stop]
                block -= around
                squares[numbers[piece], rows] = np.matmul(block[:, None, :], block[:, :, None])[:, 0, 0]

        with np.errstate(over="ignore", invalid="ignore"):
            self._run(pieces, work)
            total = np.zeros((count, len(spans)))
            for piece, part in zip(pieces, squares, strict=True):
                total[:, piece.layer] += part
            norms: Float64Array = np.sqrt(total)
            if self._wide:
                for k, layer in np.argwhere(~((total > 1e-200) & (total < math.inf))):
                    parts = [_norm(self.weights[k, span] - middle[span]) for span in spans[layer]]
                    norms[k, layer] = math.hypot(*parts)
        return norms

    def middle(self, cut: int, spans: Spans) -> tuple[Float64Array, Float64Array]:
        """See `Matrix.middle`."""
        count, size = self.weights.shape
        result = np.empty(size)
        pieces = pieces_of(spans, max(256, min(WIDEST, TILE // 2 // count)))
        numbers = {piece: number for number, piece in enumerate(pieces)}
        weight = np.empty((len(pieces), count))

        def work(piece: Piece, _: Float64Array) -> None:
            block = self.weights[:, piece.start : piece.stop]
            ranked = np.ascontiguousarray(block.T)
            ranked.sort(axis=1)
            kept = ranked[:, cut : count - cut]
            result[piece.start : piece.stop] = self._mean_of_sorted(kept)
            least, most = kept[:, 0].copy(), kept[:, -1].copy()
            weight[numbers[piece]] = _weight(block, least, most, kept.shape[1])

        self._run(pieces, work)
        share = np.zeros((count, len(spans)))
        for piece, part in zip(pieces, weight, strict=True):
            share[:, piece.layer] += part
        return result, share / [max(1, sum(span.stop - span.start for span in parts)) for parts in spans]

    def _mean_of_sorted(self, kept: FloatArray) -> Float64Array:
        left = kept.shape[1]
        mean: Float64Array = np.einsum("ck->c", kept.astype(np.float64)) / left
        if self._wide and not np.isfinite(mean).all():
            mean = (kept / left).sum(axis=1)
        return mean

    def squared_distances(self) -> Float64Array:
        """See `Matrix.squared_distances`."""
        return squared_distances(self)

    def gram(self, rows: Rows) -> Float64Array:
        """See `auricle_cloud.compute.distances.Source`."""
        side = rows.size if rows.size <= 64 else 24
        depth = min(512, max(8, PRODUCT // side**2 // 8 * 8))
        parts = -(-rows.size // side)
        steps = max(1, TILE // (parts * side * depth))
        width = steps * depth
        pieces = pieces_of([(slice(0, self.weights.shape[1]),)], width)
        slots = np.zeros((SLOTS if rows.size <= 2048 else 2, parts, parts, side, side))

        def work(slot: int, _: Float64Array) -> None:
            block = np.zeros((parts * side, width))
            stack = block.reshape(parts, side, steps, depth).transpose(2, 0, 1, 3)
            for piece in pieces[slot :: len(slots)]:
                used = block[: rows.size, : piece.width]
                used[...] = self.weights[rows, piece.start : piece.stop]
                used -= used.mean(axis=0)
                block[:, piece.width :] = 0.0
                for part in range(parts):
                    products = np.matmul(stack[:, part, None], stack[:, part:].swapaxes(2, 3))
                    slots[slot, part, part:] += products.sum(axis=0)

        self._run(range(len(slots)), work)
        full = slots.sum(axis=0).transpose(0, 2, 1, 3).reshape(parts * side, parts * side)[: rows.size, : rows.size]
        result: Float64Array = np.triu(full) + np.triu(full, 1).T
        return result

    def apart(self, row: int, others: Rows) -> Float64Array:
        """See `auricle_cloud.compute.distances.Source`."""
        result = np.zeros(others.size)
        for piece in pieces_of([(slice(0, self.weights.shape[1]),)], WIDEST):
            block = self.weights[others, piece.start : piece.stop].astype(np.float64)
            block -= self.weights[row, piece.start : piece.stop]
            result += np.matmul(block[:, None, :], block[:, :, None])[:, 0, 0]
        return result

    def _mean(
        self, piece: Piece, groups: Sequence[slice], tile: Float64Array, share: Float64Array | None
    ) -> Float64Array:
        """(width,) mean of the rows; leaves the last group in the tile."""
        count = len(self.weights)
        total = np.zeros(piece.width)
        for rows in groups:
            block = _tile(tile, rows, piece)
            block[...] = self.weights[rows, piece.start : piece.stop]
            total += block.sum(axis=0) if share is None else np.einsum("k,kc->c", share[rows], block)
        if share is None:
            total /= count
            if self._wide and not np.isfinite(total).all():
                total = (self.weights[:, piece.start : piece.stop] / count).sum(axis=0, dtype=np.float64)
        return total

    def _run(self, jobs: Sequence[_Job], work: Callable[[_Job, Float64Array], None]) -> None:
        """Do all jobs; a thread takes every n-th one and has a tile of its own."""
        threads = min(self._threads, len(jobs)) if self.weights.size >= SMALL else 1

        def take(first: int) -> None:
            tile = np.empty(TILE)
            with np.errstate(over="ignore", invalid="ignore"):  # a thread has its own state
                for job in jobs[first::threads]:
                    work(job, tile)

        if threads < 2:
            take(0)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(take, range(threads)))


def _groups(count: int, width: int) -> Iterator[slice]:
    """Rows that fit into a tile together."""
    size = max(1, TILE // width)
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def _tile(tile: Float64Array, rows: slice, piece: Piece) -> Float64Array:
    height = rows.stop - rows.start
    return tile[: height * piece.width].reshape(height, piece.width)


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
