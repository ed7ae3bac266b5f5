"""Uploads that lie in several places: each place sums and measures its own rows, and no row leaves it.

A sum over all rows is the sum of the places' sums, and a row's distance from a centre is measured where the row lies.
So a rule that asks for nothing else gives the model that it would give with all rows in one place, up to the order of
float64 sums (about 1e-16 of each value). A mean is asked for first, so that a distance from the mean takes two passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Protocol

import numpy as np

from auricle_learning.aggregation.cohort_checks import CohortError
from auricle_learning.aggregation.compute.distances import Float64Array, Rows
from auricle_learning.aggregation.compute.pieces import Spans

APART = "the updates lie in several places, and this method compares them with each other: choose another method"


class MatrixPart(Protocol):
    """Some of the rows, in one place."""

    def sum_rows(self, share: Float64Array, spans: Spans) -> Float64Array:
        """Sum the place's rows with weights of their own in each layer: (K_r, L) -> (P,)."""
        ...

    def measure_rows(self, spans: Spans, centre: Float64Array) -> Float64Array:
        """Measure ||row - centre||_2 in each layer: (P,) -> (K_r, L)."""
        ...


class MatrixParts:
    """The primitives over K rows of P values that lie in several places.

    Parameters
    ----------
    parts
        The places, asked all at once, each in a thread of its own. What one raises is raised here.
    rows
        Of each place, which of the K rows are its own, in its order.
    """

    def __init__(self, parts: Sequence[MatrixPart], rows: Sequence[Rows]) -> None:
        self._parts, self._rows = parts, rows
        self._count = sum(mine.size for mine in rows)

    def weighted_sum(self, share: Float64Array, spans: Spans) -> Float64Array:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.weighted_sum`."""
        return reduce(np.add, self._each(lambda part, mine: part.sum_rows(share[mine], spans)))

    def layer_norms(
        self, spans: Spans, *, centre: Float64Array | None = None, share: Float64Array | None = None
    ) -> Float64Array:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.layer_norms`."""
        if centre is None:
            weight = np.full(self._count, 1.0 / self._count) if share is None else share
            middle = self.weighted_sum(np.repeat(weight[:, None], len(spans), axis=1), spans)
        else:
            middle = centre
        norms = np.empty((self._count, len(spans)))
        found = self._each(lambda part, _: part.measure_rows(spans, middle))
        for mine, part in zip(self._rows, found, strict=True):
            norms[mine] = part
        return norms

    def middle(self, cut: int, spans: Spans) -> tuple[Float64Array, Float64Array]:
        """Refuse it with CohortError: each value of all rows would have to be sorted."""
        raise CohortError(APART)

    def squared_distances(self) -> Float64Array:
        """Refuse it with CohortError: every row would have to travel to every other."""
        raise CohortError(APART)

    def _each(self, ask: Callable[[MatrixPart, Rows], Float64Array]) -> list[Float64Array]:
        with ThreadPoolExecutor(len(self._parts)) as pool:
            return list(pool.map(ask, self._parts, self._rows))
