"""What rules compute on the uploads of a cohort, with the C library: NumPy's numbers at the speed of memory.

Sums and norms have the bits of `auricle_learning.aggregation.compute.matrix.NumpyMatrix`, at every level of the
processor; products of rows have bits of their own, the same at every level. Values are ranked with NumPy.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle_learning.aggregation.compute.distances import Float64Array, FloatArray, Rows
from auricle_learning.aggregation.compute.matrix import SMALL, NumpyMatrix, Opener, usable_threads
from auricle_learning.aggregation.compute.pieces import PIECE, Piece
from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.library import Library, found_library

PANEL, DEEP = 16, 128
"""Rows and columns of a product at a time, as in `sums.h`."""
_JOBS = 4
"""Parts of the work that each thread takes, so that none waits long for the others."""


class NativeMatrix(NumpyMatrix):
    """The primitives with the C library.

    Parameters
    ----------
    weights
        (K, P), K > 0, float32 and in rows; finite. Not written to.
    library
        The library.
    threads
        At most so many; None for one a core.
    level
        The widest instructions to use, one of `LEVELS`; without, the best of this processor.
    """

    def __init__(
        self, weights: FloatArray, library: Library, threads: int | None = None, level: str | None = None
    ) -> None:
        super().__init__(np.ascontiguousarray(weights, np.float32), threads)
        self._functions = library.functions
        self._most = len(LEVELS) if level is None else LEVELS.index(level)
        count, size = self.weights.shape
        self._uploads = (_address(self.weights), count * size, size, count)

    def sum_layers(self, share: Float64Array, pieces: Sequence[Piece], into: Float64Array) -> None:
        """See `NumpyMatrix.sum_layers`."""
        layers, rows = np.nonzero(share.T)
        edges = np.searchsorted(layers, np.arange(share.shape[1] + 1)).tolist()
        table = [(piece.start, piece.stop, edges[piece.layer], edges[piece.layer + 1]) for piece in pieces]
        self._sum_table(rows, share[rows, layers], table, into)

    def sum_rows(self, rows: Rows, share: Float64Array, piece: Piece, into: Float64Array) -> None:
        """See `NumpyMatrix.sum_rows`."""
        self._sum_table(rows, share, [(piece.start, piece.stop, 0, rows.size)], into)

    def _sum_table(
        self, rows: Rows, share: Float64Array, pieces: Sequence[tuple[int, ...]], into: Float64Array
    ) -> None:
        """Write sums of rows: a piece has its first column, its stop, and from where to where `rows` has its rows."""
        chosen, weight = np.ascontiguousarray(rows, np.int64), np.ascontiguousarray(share, np.float64)
        table, reached = np.array(pieces, np.int64), np.zeros(1, np.int64)
        given = (chosen, weight, chosen.size, table, len(pieces), reached, into)
        self._in_threads(lambda: self._call(self._functions.sums_weighted, *given), len(pieces))

    def square_rows(self, piece: Piece, centre: Float64Array) -> Float64Array:
        """See `NumpyMatrix.square_rows`."""
        squares = np.empty(len(self.weights))
        self._call(self._functions.sums_deviations, piece.start, piece.stop, centre, squares)
        return squares

    def spread_rows(self, groups: Sequence[list[Piece]], into: Float64Array) -> Sequence[Sequence[Float64Array]]:
        """See `NumpyMatrix.spread_rows`."""
        count = len(self.weights)
        everyone, weight, reached = np.arange(count, dtype=np.int64), np.ones(count), np.zeros(1, np.int64)
        table = np.array([(piece.start, piece.stop) for near in groups for piece in near], np.int64)
        squares = np.empty((len(table), count))

        def work() -> None:
            given = (everyone, weight, table, len(table), reached, into, np.empty(16 * count), squares)
            self._call(self._functions.sums_spread, *given)

        self._in_threads(work, len(table))
        each = iter(squares)
        return [[next(each) for _ in near] for near in groups]

    def gram(self, rows: Rows) -> Float64Array:
        """See `auricle_learning.aggregation.compute.distances.Source`."""
        chosen, centre = np.ascontiguousarray(rows, np.int64), self.mean_of(rows)
        panels = -(-rows.size // PANEL)
        side = panels * PANEL
        full = np.zeros((side, side))

        def work(part: range) -> None:
            room = np.empty(side * DEEP)
            self._call(
                *(self._functions.sums_products, chosen, chosen.size, centre, part.start, part.stop),
                *(room, room.size, full, side),
            )

        self._run(work, _even_parts(panels, _JOBS * self._threads if self._threads > 1 else 1))
        upper = np.triu(full[: rows.size, : rows.size])
        result: Float64Array = upper + np.triu(upper, 1).T
        return result

    def _in_threads(self, work: Callable[[], None], pieces: int) -> None:
        """Do the same in all threads that find something to do: each takes a piece of a table until none is left."""
        threads = min(self._threads, pieces) if self.weights.size >= SMALL else 1
        if threads < 2:
            work()
            return
        helpers = _helpers(os.getpid())
        others = [helpers.submit(work) for _ in range(threads - 1)]
        work()
        for other in others:
            if not other.cancel():  # it began, and may be at its last piece
                other.result()

    def _call(self, function: Callable[..., int], *given: int | NDArray[Any]) -> None:
        """Call the library with the uploads and further numbers and arrays."""
        more = [_address(one) if isinstance(one, np.ndarray) else one for one in given]
        if function(*self._uploads, *more, self._most) != 0:
            raise AuricleError("The C library was asked for numbers outside of the updates: report this.")


def processor_opener() -> Opener:
    """The primitives on the processor: with the C library where it is there and computes as NumPy does, else NumPy."""
    library = found_library()
    if library is None or fault_of(library) is not None:
        return NumpyMatrix

    def opened(weights: FloatArray) -> NumpyMatrix:
        return NativeMatrix(weights, library) if weights.dtype == np.float32 else NumpyMatrix(weights)

    return opened


def how_sums_are_made() -> str:
    """With what the processor sums updates, and why not with the library."""
    library = found_library()
    if library is None:
        return "NumPy sums updates, since the C library is not there"
    fault = fault_of(library)
    return f"the C library sums updates ({library.level})" if fault is None else f"NumPy sums updates: {fault}"


@cache
def _helpers(_process: int) -> ThreadPoolExecutor:
    """Threads of this process that stay: to start one takes as long as a fifth of the sums of a small cohort."""
    return ThreadPoolExecutor(usable_threads(), "auricle-sums")


@cache
def fault_of(library: Library) -> str | None:
    """What the library computes wrongly on this processor; None where it has NumPy's bits."""
    weights = np.random.default_rng(0).standard_normal((21, PIECE + 37), np.float32)
    spans = [(slice(0, 19),), (slice(19, weights.shape[1]),)]
    share = np.random.default_rng(1).random((21, 2))
    plain, native = NumpyMatrix(weights, 1), NativeMatrix(weights, library, 1)
    if native.weighted_sum(share, spans).tobytes() != plain.weighted_sum(share, spans).tobytes():
        return "sums of the C library are not NumPy's on this processor"
    if native.layer_norms(spans).tobytes() != plain.layer_norms(spans).tobytes():
        return "distances of the C library are not NumPy's on this processor"
    return None


def _address(array: NDArray[Any]) -> int:
    place: int = array.__array_interface__["data"][0]  # `array.ctypes.data` takes twice as long, in each of many calls
    return place


def _even_parts(panels: int, parts: int) -> list[range]:
    """Panels in parts of about as much work: panel i is multiplied with itself and those behind it."""
    work = np.cumsum(np.arange(panels, 0, -1))
    edges = np.searchsorted(work, work[-1] * np.arange(1, parts) / parts) + 1
    cuts = sorted({0, panels, *edges.tolist()})
    return [range(first, last) for first, last in itertools.pairwise(cuts)]
