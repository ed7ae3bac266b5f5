"""Depthwise convolutions with strides, dilations, padding and odd sizes, and a plain reference for them in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle_learning.native.windows import Axes, KernelWindow, SeenAxis, whole, window_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A convolution of a batch (*sizes, batch, channels)."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    batch: int
    channels: int

    @property
    def out(self) -> tuple[int, ...]:
        """Sizes of what it makes."""
        each = zip(self.sizes, self.kernel, self.stride, self.dilation, self.padding, strict=True)
        return tuple((n + sum(pads) - d * (k - 1) - 1) // s + 1 for n, k, s, d, pads in each)

    @property
    def places(self) -> list[tuple[int, ...]]:
        """Of the kernel."""
        return list(np.ndindex(*self.kernel))


def shifts(case: Case) -> KernelWindow:
    """What the kernel's places see of the batch."""
    return _window(case, case.sizes, [_forward(case, place) for place in case.places])


def shifts_back(case: Case) -> KernelWindow:
    """What they see of the gradient of what is made, on the way to that of the batch."""
    return _window(case, case.out, [_back(case, place) for place in case.places])


def _window(case: Case, sizes: Sequence[int], places: Sequence[Axes]) -> KernelWindow:
    rest = (whole(case.batch), whole(case.channels))
    found = window_of(tuple((*axes, *rest) for axes in places), (*sizes, case.batch, case.channels))
    assert found is not None
    return found


def _forward(case: Case, place: tuple[int, ...]) -> Axes:
    seen = []
    for at, n in enumerate(case.sizes):
        axis = whole(n).pad(*case.padding[at]).cut(place[at] * case.dilation[at], case.out[at], case.stride[at])
        assert axis is not None
        seen.append(axis)
    return tuple(seen)


def _back(case: Case, place: tuple[int, ...]) -> Axes:
    seen: list[SeenAxis] = []
    for at, n in enumerate(case.out):
        axis: SeenAxis | None = whole(n)
        if case.stride[at] > 1:
            axis = whole(n).spread_out(case.stride[at])
            assert axis is not None
            axis = axis.cut(0, (n - 1) * case.stride[at] + 1, 1)
        assert axis is not None
        before = place[at] * case.dilation[at] - case.padding[at][0]
        seen.append(axis.pad(before, case.sizes[at] - before - axis.size))
    return tuple(seen)


def made(case: Case, x: Array, weights: Array) -> Array:
    """Its result (*out, batch, channels) for a batch and weights (places, channels)."""
    y = np.zeros((*case.out, *x.shape[-2:]))
    for (i, at), k in ((pair, k) for k, place in enumerate(case.places) for pair in _pairs(case, place)):
        y[i] += x[at] * weights[k]
    return y


def gradients(case: Case, x: Array, weights: Array, dy: Array) -> tuple[Array, Array]:
    """Gradients of the batch and of the weights."""
    dx, dw = np.zeros_like(x), np.zeros_like(weights)
    for (i, at), k in ((pair, k) for k, place in enumerate(case.places) for pair in _pairs(case, place)):
        dx[at] += dy[i] * weights[k]
        dw[k] += (dy[i] * x[at]).sum(axis=0)
    return dx, dw


def _pairs(case: Case, place: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Each output that a place makes a part of, and the input that it sees there."""
    pairs = []
    for i in np.ndindex(*case.out):
        moves = zip(i, place, case.stride, case.dilation, case.padding, strict=True)
        at = tuple(n * s + k * d - before for n, k, s, d, (before, _) in moves)
        if all(0 <= n < size for n, size in zip(at, case.sizes, strict=True)):
            pairs.append((i, at))
    return pairs


CASES = (
    Case((7, 5), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 3, 40),
    Case((9, 6), (3, 3), (2, 1), (1, 2), ((1, 1), (2, 2)), 2, 17),
    Case((8, 7), (3, 2), (2, 3), (2, 1), ((0, 3), (1, 0)), 1, 5),
    Case((5, 4), (5, 5), (1, 1), (1, 1), ((0, 0), (2, 2)), 4, 48),
    Case((11, 1), (3, 1), (2, 1), (1, 1), ((1, 1), (0, 0)), 2, 16),
    Case((13,), (4,), (3,), (2,), ((5, 1),), 3, 33),
    Case((40,), (70,), (1,), (1,), ((34, 35),), 1, 4),
    Case((3,), (5,), (2,), (3,), ((7, 8),), 2, 8),
    Case((600,), (3,), (1,), (1,), ((1, 1),), 1, 6),
)
"""The second last has places that see padding alone; the one before that more places than an instruction."""
