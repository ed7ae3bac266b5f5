"""What places of a window see: values that are parts of another one with zeros around or between its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from auricle.checks.layout_shapes import slice_cuts
from auricle.checks.onnx_reader import Node
from auricle.checks.operator_call import Shape
from auricle_learning.native.layout import Graph, pad_widths
from auricle_learning.native.views import View
from auricle_learning.native.writer import Walk, Writer


class SeenAxis(NamedTuple):
    """Number i of so many is number (start + step i) / spread of a source, where low <= i < high; elsewhere it is 0.

    With a spread over 1 it is 0 between the source's numbers, too, and the step is 1.
    """

    size: int
    start: int
    step: int
    spread: int
    low: int
    high: int

    def cut(self, start: int, size: int, step: int) -> SeenAxis | None:
        """Some of it; None where that cannot be said."""
        if step < 1 or (step > 1 and self.spread > 1):
            return None
        low, high = (-((start - end) // step) for end in (self.low, self.high))
        return SeenAxis(
            size, self.start + self.step * start, self.step * step, self.spread, max(low, 0), min(high, size)
        )

    def pad(self, before: int, after: int) -> SeenAxis:
        """With so many zeros around it; a negative width cuts."""
        size, low, high = self.size + before + after, self.low + before, self.high + before
        return SeenAxis(size, self.start - self.step * before, self.step, self.spread, max(low, 0), min(high, size))

    def spread_out(self, times: int) -> SeenAxis | None:
        """So many times as long, zeros behind each number; None where that cannot be said."""
        if self.spread > 1 or self.step > 1:
            return None
        return SeenAxis(self.size * times, self.start * times, 1, times, self.low * times, (self.high - 1) * times + 1)

    @property
    def place(self) -> tuple[int, int, int]:
        """The first number that is of the source, how many there are, and where the first lies there."""
        first = self.low + -(self.start + self.step * self.low) % self.spread
        count = max(0, -(-(self.high - first) // self.spread))
        return first, count, (self.start + self.step * first) // self.spread


Axes = tuple[SeenAxis, ...]
Moved = Callable[[Axes], "Axes | None"]


def whole(size: int) -> SeenAxis:
    """An axis of a value as it is."""
    return SeenAxis(size, 0, 1, 1, 0, size)


def move(graph: Graph, makers: Mapping[str, Node], node: Node) -> tuple[str, Moved] | None:
    """The value of which a Slice or a Pad, or zeros between its numbers, are made, and how its axes become the node's.

    Zeros are put between numbers by a new axis of size 1 (Unsqueeze), zeros behind it (Pad), and a Reshape that joins
    it to the axis before it.
    """
    if node.operator == "Slice":
        cuts = slice_cuts(graph.call(node))
        return node.inputs[0], lambda axes: _cut(axes, cuts)
    if node.operator == "Pad" and _with_zeros(graph, node):
        widths = pad_widths(graph, node)
        return node.inputs[0], lambda axes: tuple(axis.pad(*width) for axis, width in zip(axes, widths, strict=True))
    padded = makers.get(node.inputs[0]) if node.operator == "Reshape" else None
    longer = makers.get(padded.inputs[0]) if padded is not None and padded.operator == "Pad" else None
    if padded is None or longer is None or longer.operator != "Unsqueeze" or not _with_zeros(graph, padded):
        return None
    source, wide = longer.inputs[0], graph.shapes[longer.outputs[0]]
    axes = [axis for axis, width in enumerate(pad_widths(graph, padded)) if width != (0, 0)]
    if len(axes) != 1 or axes[0] == 0 or wide[axes[0]] != 1 or pad_widths(graph, padded)[axes[0]][0] != 0:
        return None
    at, times = axes[0] - 1, graph.shapes[padded.outputs[0]][axes[0]]
    before = graph.shapes[source]
    same = (*wide[: at + 1], *wide[at + 2 :]) == before
    if not same or graph.shapes[node.outputs[0]] != (*before[:at], before[at] * times, *before[at + 1 :]):
        return None
    return source, lambda axes: _replace(axes, at, axes[at].spread_out(times))


def _with_zeros(graph: Graph, node: Node) -> bool:
    """Whether a Pad puts zeros around what it is given."""
    named = len(node.inputs) > 2 and node.inputs[2]
    value = graph.constants.get(node.inputs[2]) if named else np.zeros(1)
    return node.attributes.get("mode", b"constant") == b"constant" and value is not None and not np.any(value)


def _cut(axes: Axes, cuts: Sequence[tuple[int, slice]]) -> Axes | None:
    made: Axes | None = axes
    for at, cut in cuts:
        if made is not None:
            span = range(*cut.indices(made[at].size))
            made = _replace(made, at, made[at].cut(span.start, len(span), span.step))
    return made


def _replace(axes: Axes, at: int, axis: SeenAxis | None) -> Axes | None:
    return None if axis is None else (*axes[:at], axis, *axes[at + 1 :])


class KernelWindow(NamedTuple):
    """What each place of a window sees of a value (..., channels), along one or two of its axes."""

    moving: tuple[int, ...]
    """The axes, in order."""
    axes: tuple[Axes, ...]
    """Of each place, all of them."""

    def sees(self, place: int) -> bool:
        """Whether a place sees anything."""
        return all(self.axes[place][at].place[1] for at in self.moving)

    def in_order(self, writer: Writer, view: View) -> View:
        """A value as (axis 0, axis 1, rows, channels), channels side by side; a copy where it takes one."""
        last = len(view.shape) - 1
        rest = [at for at in range(last) if at not in self.moving]
        view = view.transposed([*self.moving, *rest, last])
        moved = view.shape[: len(self.moving)]
        shape = (*(1,) * (2 - len(moved)), *moved, math.prod(view.shape[len(moved) : -1]), view.shape[-1])
        made = view.reshaped(shape) if view.strides[-1] == 1 else None
        return writer.reshape(writer.dense(view), shape) if made is None else made

    def walk(self, chosen: Sequence[int], source: View) -> Walk:
        """What some places see of an ordered source."""
        places = []
        for place in chosen:
            spots = [(0, 1, 0)] * (2 - len(self.moving)) + [self.axes[place][at].place for at in self.moving]
            offset = source.offset + sum(at * stride for (_, _, at), stride in zip(spots, source.strides, strict=False))
            places.append((offset, *spots[0][:2], *spots[1][:2]))
        moved = [self.axes[0][at] for at in self.moving]
        steps = [1] * (2 - len(moved)) + [axis.spread for axis in moved]
        within = [1] * (2 - len(moved)) + [axis.step for axis in moved]
        strides = (*(step * stride for step, stride in zip(within, source.strides, strict=False)), source.strides[2])
        return Walk((steps[0], steps[1]), strides, tuple(places))


def window_of(axes: tuple[Axes, ...], shape: Shape) -> KernelWindow | None:
    """The window whose places see a value of a shape so; None where it is none of one or two axes."""
    last = len(shape) - 1
    moving = tuple(at for at in range(last + 1) if any(each[at] != whole(shape[at]) for each in axes))
    choices = [moving, *(tuple(sorted((*moving, at))) for at in range(last) if len(moving) == 1 and at not in moving)]
    found = next((each for each in choices if _rows_join(each, shape)), ())
    alike = all(len({(each[at].step, each[at].spread) for each in axes}) == 1 for at in moving)
    window = KernelWindow(found, axes)
    sound = 1 <= len(moving) <= 2 and last not in moving and alike and found
    return window if sound and any(map(window.sees, range(len(axes)))) else None


def _rows_join(moving: tuple[int, ...], shape: Shape) -> bool:
    """Whether the axes that a window does not move along, but for channels, lie one beside the other."""
    rest = [at for at, size in enumerate(shape[:-1]) if at not in moving and size != 1]
    return all(after == before + 1 for before, after in pairwise(rest))
