"""What rules compute on the uploads of a cohort: a few primitives over (K, P) values, here with NumPy.

Everything is accumulated in float64. The columns are cut into pieces of a few MB, at places that depend on nothing but
the shape; threads take whole pieces and the parts are put together in a fixed order, and products of matrices are so
small that BLAS does not split them. So the bits of a result do not depend on how many threads there are. The primitives
are the same on an accelerator, see `auricle_learning.aggregation.compute.matrix_torch`.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np

from auricle_learning.aggregation.compute.distances import Float64Array, FloatArray, Rows, squared_distances
from auricle_learning.aggregation.compute.products import (
    VALUES,
    Piece,
    Spans,
    depth_of,
    pieces_of,
    squares,
    strips,
    weighted,
)

TILE = 1 << 19
"""Float64 values that a thread works on at a time: 4 MiB. Less would stay nearer to the core, but is more sums."""
APART = 8
"""Values between two rows of a tile: rows that all began at the same place of a page would share a few lines of it."""
SMALL = 1 << 19
"""Values below which another thread costs more than it saves."""
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
        self._tiles: deque[Float64Array] = deque()  # of calls before: the system clears new ones first
        self._wide = weights.dtype == np.float64  # may overflow and underflow where float32 cannot

    def weighted_sum(self, share: Float64Array, spans: Spans) -> Float64Array:
        """See `Matrix.weighted_sum`."""
        result = np.zeros(self.weights.shape[1])
        counting = [np.flatnonzero(column) for column in share.T]

        def work(piece: Piece, tile: Float64Array) -> None:
            rows = counting[piece.layer]
            weight = share[rows, piece.layer]
            into = result[piece.start : piece.stop]
            for part in _groups(rows.size, piece.width):
                block = self._load(_tile(tile, rows[part].size, piece.width), rows[part], piece)
                into += weighted(weight[part], block)

        self._run(pieces_of(spans, 2 * VALUES), work)
        return result

    def layer_norms(
        self, spans: Spans, *, centre: Float64Array | None = None, share: Float64Array | None = None
    ) -> Float64Array:
        """See `Matrix.layer_norms`."""
        count = len(self.weights)
        fitting = TILE // count - APART
        pieces = pieces_of(spans, min(fitting, VALUES) if fitting >= 1024 else VALUES)
        everyone = np.arange(count)
        numbers = {piece: number for number, piece in enumerate(pieces)}
        sums = np.empty((len(pieces), count))
        middle = np.empty(self.weights.shape[1]) if centre is None else centre

        def work(piece: Piece, tile: Float64Array) -> None:
            groups = [everyone[part] for part in _groups(count, piece.width)]
            around = middle[piece.start : piece.stop]
            if centre is None:
                around[:] = self._mean(piece, groups, tile, share)
            for rows in groups:
                block = _tile(tile, rows.size, piece.width)
                if centre is not None or len(groups) > 1:  # else the mean has left it there
                    self._load(block, rows, piece)
                block -= around
                sums[numbers[piece], rows] = squares(block)

        with np.errstate(over="ignore", invalid="ignore"):
            self._run(pieces, work)
            total = np.zeros((count, len(spans)))
            for piece, part in zip(pieces, sums, strict=True):
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
        pieces = pieces_of(spans, max(256, min(VALUES, TILE // count)))
        numbers = {piece: number for number, piece in enumerate(pieces)}
        weight = np.empty((len(pieces), count))

        def work(piece: Piece, _: Float64Array) -> None:
            block = self.weights[:, piece.start : piece.stop]
            ranked = np.array(block.T, order="C")  # always a copy: the transpose may be contiguous as it is
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
        """See `auricle_learning.aggregation.compute.distances.Source`."""
        cut = strips(rows.size)
        depth, height = depth_of(cut), max(strip.columns.stop for strip in cut)
        width = max(1, TILE // (height * depth)) * depth
        pieces = pieces_of([(slice(0, self.weights.shape[1]),)], width)
        slots = [[np.zeros(strip.shape) for strip in cut] for _ in range(SLOTS if rows.size <= 2048 else 2)]

        def work(slot: int, _: Float64Array) -> None:
            block = _tile(np.zeros(height * (width + APART)), height, width)
            for piece in pieces[slot :: len(slots)]:
                used = self._load(block[: rows.size, : piece.width], rows, piece)
                used -= weighted(np.ones(rows.size), used) / rows.size
                block[:, piece.width :] = 0.0
                for strip, total in zip(cut, slots[slot], strict=True):
                    strip.add(total, block, depth)

        self._run(range(len(slots)), work)
        full = np.zeros((rows.size, height))
        for strip, *totals in zip(cut, *slots, strict=True):
            full[strip.rows, strip.columns] = strip.flat(sum(totals[1:], totals[0]))
        upper = full[:, : rows.size]
        result: Float64Array = np.triu(upper) + np.triu(upper, 1).T
        return result

    def apart(self, row: int, others: Rows) -> Float64Array:
        """See `auricle_learning.aggregation.compute.distances.Source`."""
        result = np.zeros(others.size)
        for piece in pieces_of([(slice(0, self.weights.shape[1]),)], VALUES):
            block = self._load(np.empty((others.size, piece.width)), others, piece)
            block -= self.weights[row, piece.start : piece.stop]
            result += squares(block)
        return result

    def _mean(
        self, piece: Piece, groups: Sequence[Rows], tile: Float64Array, share: Float64Array | None
    ) -> Float64Array:
        """(width,) mean of the rows; leaves the last group in the tile."""
        count = len(self.weights)
        total = np.zeros(piece.width)
        for rows in groups:
            block = self._load(_tile(tile, rows.size, piece.width), rows, piece)
            total += weighted(np.ones(rows.size) if share is None else share[rows], block)
        if share is None:
            total /= count
            if self._wide and not np.isfinite(total).all():
                total = (self.weights[:, piece.start : piece.stop] / count).sum(axis=0, dtype=np.float64)
        return total

    def _load(self, block: Float64Array, rows: Rows, piece: Piece) -> Float64Array:
        """Put columns of some rows, which ascend, into a block."""
        neighbours = rows.size > 0 and rows[-1] - rows[0] == rows.size - 1
        chosen = slice(rows[0], rows[-1] + 1) if neighbours else rows  # which takes another copy
        block[...] = self.weights[chosen, piece.start : piece.stop]
        return block

    def _run(self, jobs: Sequence[_Job], work: Callable[[_Job, Float64Array], None]) -> None:
        """Do all jobs; a thread takes the next one when it is through, and has a tile of its own."""
        threads = min(self._threads, len(jobs)) if self.weights.size >= SMALL else 1
        waiting = deque(jobs)

        def take() -> None:
            tile = _next(self._tiles)
            tile = np.empty(TILE) if tile is None else tile
            with np.errstate(over="ignore", invalid="ignore"):  # a thread has its own state
                while (job := _next(waiting)) is not None:
                    work(job, tile)
            self._tiles.append(tile)

        if threads < 2:
            take()
            return
        with ThreadPoolExecutor(threads - 1) as pool:
            others = [pool.submit(take) for _ in range(threads - 1)]
            take()
            for other in others:
                other.result()


def _next(waiting: deque[_Job]) -> _Job | None:
    try:
        return waiting.popleft()
    except IndexError:  # another thread may have been faster
        return None


def _groups(count: int, width: int) -> Iterator[slice]:
    """Rows that fit into a tile together."""
    size = max(1, TILE // (width + APART))
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def _tile(tile: Float64Array, height: int, width: int) -> Float64Array:
    stride = width + APART
    return tile[: height * stride].reshape(height, stride)[:, :width]


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
