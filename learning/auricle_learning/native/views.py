"""Where the numbers of a value lie: a piece of memory, an offset and a stride for each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

Shape = tuple[int, ...]
Axis = tuple[int, tuple[int, ...]]
"""The size of an axis and the stride of each view along it."""


@dataclass(eq=False)
class Store:
    """A piece of the arena; `first` and `last` are the instructions between which it is needed.

    An input or a constant is `kept`: it has its place before a program runs, and keeps it.
    """

    size: int
    kept: bool = False
    first: int = 1 << 60
    last: int = -1
    offset: int = -1
    instead: Store | None = None
    """The store in whose place it lies: a state that is replaced where it is."""


@dataclass
class Instruction:
    """Words, with views where offsets will stand."""

    words: list[int | View]
    reads: list[View]
    writes: list[View]


class View(NamedTuple):
    """Numbers of a store, without a copy: `strides` in numbers, 0 where an axis repeats one."""

    store: Store
    offset: int
    shape: Shape
    strides: Shape

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether they lie side by side, in the order of the axes."""
        due = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != due:
                return False
            due *= size
        return True

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same numbers in another shape; None where that takes a copy."""
        strides = _restrided(self.shape, self.strides, tuple(shape))
        return None if strides is None else View(self.store, self.offset, tuple(shape), strides)

    def cut(self, axis: int, start: int, size: int, step: int = 1) -> View:
        """Some of an axis."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis]
        shape[axis], strides[axis] = size, strides[axis] * step
        return View(self.store, offset, tuple(shape), tuple(strides))

    def transposed(self, order: Sequence[int]) -> View:
        """With its axes in another order."""
        shape, strides = self.shape, self.strides
        return View(self.store, self.offset, tuple([shape[i] for i in order]), tuple([strides[i] for i in order]))

    def without(self, axis: int) -> View:
        """Without an axis of size 1."""
        shape, strides = self.shape, self.strides
        left, steps = shape[:axis] + shape[axis + 1 :], strides[:axis] + strides[axis + 1 :]
        return View(self.store, self.offset, left, steps)

    def broadcast(self, shape: Shape) -> View:
        """Repeated to a shape that it fits."""
        if shape == self.shape and 1 not in shape:
            return self
        lead = len(shape) - len(self.shape)
        pairs = [(1, 0)] * lead + list(zip(self.shape, self.strides, strict=True))
        strides = tuple(0 if size == 1 else stride for size, stride in pairs)
        return View(self.store, self.offset, shape, strides)

    def lies_as(self, other: View) -> bool:
        """Whether each number is where the other's is in its own store."""
        same = (self.offset, self.shape) == (other.offset, other.shape)
        return same and all(s == 1 or a == b for s, a, b in zip(self.shape, self.strides, other.strides, strict=True))


def dense(shape: Sequence[int]) -> Shape:
    """Strides of numbers that lie side by side, the last axis innermost."""
    strides, stride = [], 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= size
    return tuple(reversed(strides))


def joined_axes(shape: Sequence[int], *strides: Sequence[int]) -> list[Axis]:
    """The fewest axes, in order, over which all views with these strides can be walked together."""
    axes: list[Axis] = []
    for size, steps in zip(shape, zip(*strides, strict=True), strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == tuple([step * size for step in steps]):
            axes[-1] = (axes[-1][0] * size, steps)
        else:
            axes.append((size, steps))
    return axes


def _restrided(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Match runs of old axes with runs of new ones of the same product; each old run has to be evenly spaced."""
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    new = [size for size in wanted if size != 1]
    found: list[int] = []
    while old:
        run, sizes = [old.pop(0)], [new.pop(0)]
        while (there := math.prod(size for size, _ in run)) != (due := math.prod(sizes)):
            if there < due:
                run.append(old.pop(0))
            else:
                sizes.append(new.pop(0))
        if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(run)):
            return None
        found += [stride * run[-1][1] for stride in dense(sizes)]
    rest = iter(found)
    return tuple(next(rest) if size != 1 else 0 for size in wanted)
