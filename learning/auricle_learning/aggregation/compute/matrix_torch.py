"""What rules compute on the uploads of a cohort, in PyTorch on one device: float64 sums in bounded memory.

The numbers are those of `auricle_learning.aggregation.compute.matrix.NumpyMatrix` up to the order of the sums.
PyTorch is imported when a matrix is opened, never before.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from auricle_learning.aggregation.compute.distances import Float64Array, FloatArray, Rows, squared_distances
from auricle_learning.aggregation.compute.pieces import Piece, Spans, pieces_of

Tensor = Any
MEMORY = 1 << 30
"""Bytes, where nobody says how many."""
COPIES = 8
"""Arrays of eight bytes a value that a primitive holds of a piece at most; sorting needs the most."""


class TorchMatrix:
    """The primitives on a device that has float64.

    Parameters
    ----------
    weights
        (K, P), K > 0, float32; finite. Copied to the device where half of the memory holds it, else piece by piece.
    device
        PyTorch's name of it.
    memory
        Bytes to use there at most; one column of values has to fit.
    """

    def __init__(self, weights: FloatArray, *, device: str, memory: int = MEMORY) -> None:
        self.weights = weights
        self._torch = importlib.import_module("torch")
        self._device = device
        self._resident = self._put(weights) if weights.nbytes <= memory // 2 else None
        left = memory - (weights.nbytes if self._resident is not None else 0)
        self._width = max(1, left // (8 * COPIES * len(weights)))

    def weighted_sum(self, share: Float64Array, spans: Spans) -> Float64Array:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.weighted_sum`."""
        result, weight = np.zeros(self.weights.shape[1]), self._put(share)
        for piece in pieces_of(spans, self._width):
            counting = np.flatnonzero(share[:, piece.layer])
            if counting.size:
                chosen = (
                    weight[self._put(counting), piece.layer] if counting.size < len(share) else weight[:, piece.layer]
                )
                result[piece.start : piece.stop] = self._get(chosen @ self._block(piece, counting))
        return result

    def layer_norms(
        self, spans: Spans, *, centre: Float64Array | None = None, share: Float64Array | None = None
    ) -> Float64Array:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.layer_norms`."""
        total = self._zeros(len(self.weights), len(spans))
        around = None if centre is None else self._put(centre)
        weight = None if share is None else self._put(share)
        for piece in pieces_of(spans, self._width):
            block = self._block(piece)
            if around is not None:
                block -= around[piece.start : piece.stop]
            else:
                block -= block.mean(dim=0) if weight is None else weight @ block
            total[:, piece.layer] += block.square_().sum(dim=1)
        return self._get(total.sqrt())

    def middle(self, cut: int, spans: Spans) -> tuple[Float64Array, Float64Array]:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.middle`."""
        count, size = self.weights.shape
        result, weight = np.empty(size), self._zeros(count, len(spans))
        for piece in pieces_of(spans, self._width):
            block = self._block(piece, exact=True)
            kept = self._torch.sort(block, dim=0).values[cut : count - cut]
            result[piece.start : piece.stop] = self._get(kept.mean(dim=0, dtype=self._torch.float64))
            inside = ((block >= kept[0]) & (block <= kept[-1])).to(self._torch.float64)
            weight[:, piece.layer] += inside @ (1 / inside.sum(dim=0))
        sizes = [max(1, sum(span.stop - span.start for span in parts)) for parts in spans]
        return result, self._get(weight) / sizes

    def squared_distances(self) -> Float64Array:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.squared_distances`."""
        return squared_distances(self)

    def gram(self, rows: Rows) -> Float64Array:
        """See `auricle_learning.aggregation.compute.distances.Source`."""
        products = self._zeros(rows.size, rows.size)
        for piece in self._all():
            block = self._block(piece, rows)
            block -= block.mean(dim=0)
            products += block @ block.T
        return self._get((products + products.T) / 2)

    def apart(self, row: int, others: Rows) -> Float64Array:
        """See `auricle_learning.aggregation.compute.distances.Source`."""
        total = self._zeros(others.size)
        for piece in self._all():
            block = self._block(piece, others)
            block -= self._block(piece, np.array([row]))[0]
            total += block.square_().sum(dim=1)
        return self._get(total)

    def _all(self) -> Iterator[Piece]:
        return iter(pieces_of([(slice(0, self.weights.shape[1]),)], self._width))

    def _block(self, piece: Piece, rows: Rows | None = None, *, exact: bool = False) -> Tensor:
        """Columns of some or all rows in an array of their own: float64, or with `exact` as they are."""
        chosen = slice(None) if rows is None or rows.size == len(self.weights) else rows
        if self._resident is None:
            block = self._put(np.ascontiguousarray(self.weights[chosen, piece.start : piece.stop]))
        else:
            block = self._resident[:, piece.start : piece.stop]
            block = block if isinstance(chosen, slice) else block[self._put(chosen)]
        return block if exact else block.to(self._torch.float64, copy=True)

    def _put(self, array: object) -> Tensor:
        return self._torch.tensor(array, device=self._device)

    def _zeros(self, *shape: int) -> Tensor:
        return self._torch.zeros(shape, dtype=self._torch.float64, device=self._device)

    def _get(self, values: Tensor) -> Float64Array:
        array: Float64Array = values.cpu().numpy()
        return array
