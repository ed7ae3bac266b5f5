"""Columns of uploads and products of matrices in parts so small that BLAS leaves each to one thread.

So the bits are the same whatever threads it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Spans = Sequence[tuple[slice, ...]]
"""The spans of each layer in the flat vector."""
Float64Array = NDArray[np.float64]

VALUES = 8192
"""Of a dot product, or of a matrix times a vector, that stays whole; OpenBLAS splits from 9,216 on."""
TALLEST = 64
"""Rows that are added up at a time."""
PRODUCT = 1 << 18
"""Multiplications of a product of two matrices that stays whole."""
ROWS, COLUMNS = 16, 32
"""Sides of such a product at most: narrow ones are multiplied fastest."""


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


@dataclass(frozen=True)
class Strip:
    """Some rows of a matrix by all rows from the first of them on: a strip of the upper triangle of A Aᵀ."""

    start: int
    height: int
    width: int
    """Of one of the parts side by side."""
    number: int

    @property
    def rows(self) -> slice:
        """Those on the left."""
        return slice(self.start, self.start + self.height)

    @property
    def columns(self) -> slice:
        """Rows on the right; a few may lie behind the last one."""
        return slice(self.start, self.start + self.width * self.number)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the product, part by part."""
        return self.number, self.height, self.width

    def add(self, total: Float64Array, block: Float64Array, depth: int) -> None:
        """Add the product over the columns of a block, (K, n depth), to a total of `shape`."""
        left = block[self.rows].reshape(self.height, 1, -1, depth).transpose(2, 1, 0, 3)
        right = block[self.columns].reshape(self.number, self.width, -1, depth).transpose(2, 0, 3, 1)
        for made in np.matmul(left, right):
            total += made

    def flat(self, total: Float64Array) -> Float64Array:
        """Put the parts side by side: (height, number * width)."""
        beside: Float64Array = total.transpose(1, 0, 2).reshape(self.height, -1)
        return beside


def strips(count: int) -> list[Strip]:
    """Cut the upper triangle of a matrix of `count` rows by itself into strips."""
    found = []
    for start in range(0, count, ROWS):
        left = count - start
        number = -(-left // COLUMNS)
        found.append(Strip(start, min(ROWS, left), -(-left // number), number))
    return found


def depth_of(cut: list[Strip]) -> int:
    """Values of each row that are multiplied at a time."""
    return max(8, PRODUCT // (ROWS * max(strip.width for strip in cut)) // 8 * 8)


def weighted(weight: Float64Array, block: Float64Array) -> Float64Array:
    """Sum rows with weights: (K,) and (K, width) -> (width,)."""
    answer = np.zeros(block.shape[1])
    for first in range(0, len(weight), TALLEST):
        some, rows = weight[first : first + TALLEST], block[first : first + TALLEST]
        step = VALUES // len(some)
        whole = answer.size // step * step
        answer[:whole] += np.matmul(some, rows[:, :whole].reshape(len(some), -1, step).swapaxes(0, 1)).ravel()
        answer[whole:] += some @ rows[:, whole:]
    return answer


def squares(block: Float64Array) -> Float64Array:
    """Sum the squares of each row, of at most `VALUES` values: (K, width) -> (K,)."""
    sums: Float64Array = np.matmul(block[:, None, :], block[:, :, None])[:, 0, 0]
    return sums
