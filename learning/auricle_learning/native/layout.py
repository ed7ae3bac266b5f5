"""A graph while it is written down as a program, and its operators that move numbers or look at them in another way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auricle.checks.layout_shapes import slice_cuts
from auricle.checks.onnx_reader import Node
from auricle.checks.operator_call import Call, Constant, Shape
from auricle_learning.native.program import UnsupportedError
from auricle_learning.native.views import View
from auricle_learning.native.writer import Writer

MOST_PLACES = 2000
"""Of a recurrence, a kernel or an edge: each has instructions of its own."""
FLOAT, TRUTH, WHOLE = "f", "b", "i"
"""What kind of numbers a value has; all of them lie in the arena as float32."""


@dataclass
class Graph:
    """A graph while it is written down as a program."""

    writer: Writer
    shapes: Mapping[str, Shape]
    constants: Mapping[str, Constant]
    """Values that are known before it runs."""
    values: dict[str, View] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    places: dict[str, View] = field(default_factory=dict)
    """Where a value should be made, so that what it is joined with lies beside it."""
    apart: dict[str, Node] = field(default_factory=dict)
    """Matrices whose columns only products read: they stay where they are, the Concat that would join them by name."""
    argmaxes: set[str] = field(default_factory=set)
    """Values that are places in a row."""

    def view(self, name: str) -> View:
        """Where a value lies."""
        if name not in self.values:
            self.values[name] = self.writer.constant(_numbers(self.constants[name]))
        return self.values[name]

    def blocks(self, name: str) -> list[View]:
        """A matrix as blocks of its columns, one beside the other."""
        if name not in self.apart:
            return [self.view(name)]
        rows = math.prod(self.shapes[name][:-1])
        return [self.writer.reshape(self.view(x), (rows, self.shapes[x][-1])) for x in self.apart[name].inputs]

    def kind(self, name: str) -> str:
        """What kind of numbers a value has."""
        if name in self.constants:
            return {"f": FLOAT, "b": TRUTH}.get(self.constants[name].dtype.kind, WHOLE)
        return self.kinds.get(name, FLOAT)

    def call(self, node: Node) -> Call:
        """The node as the checks see it."""
        shapes = [self.shapes[name] if name else None for name in node.inputs]
        return Call(node, shapes, [self.constants.get(name) for name in node.inputs])


def _numbers(value: Constant) -> NDArray[np.float32]:
    """A constant as float32; refused where that would change whole numbers."""
    numbers = value.astype(np.float32)
    if value.dtype.kind in "iu" and value.size and np.abs(value.astype(np.float64)).max() > 1 << 24:
        raise UnsupportedError("it has whole numbers over 2^24")
    return numbers


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise UnsupportedError(reason)


def _reshape(graph: Graph, node: Node) -> list[View]:
    return [graph.writer.reshape(graph.view(node.inputs[0]), graph.shapes[node.outputs[0]])]


def _transpose(graph: Graph, node: Node) -> list[View]:
    view = graph.view(node.inputs[0])
    return [view.transposed(graph.call(node).list("perm", list(range(len(view.shape)))[::-1]))]


def _expand(graph: Graph, node: Node) -> list[View]:
    return [graph.view(node.inputs[0]).broadcast(graph.shapes[node.outputs[0]])]


def _slice(graph: Graph, node: Node) -> list[View]:
    view, call = graph.view(node.inputs[0]), graph.call(node)
    for axis, cut in slice_cuts(call):
        span = range(*cut.indices(call.shape()[axis]))
        view = view.cut(axis, span.start, len(span), span.step)
    return [view]


def _split(graph: Graph, node: Node) -> list[View]:
    return _cut_in_turn(graph, node, graph.view(node.inputs[0]), node.outputs)


def _cut_in_turn(graph: Graph, node: Node, whole: View, names: Sequence[str]) -> list[View]:
    """The parts of a view along the node's axis, each as long as the value of its name."""
    axis, at, parts = graph.call(node).number("axis", 0) % len(whole.shape), 0, []
    for name in names:
        size = graph.shapes[name][axis]
        parts.append(whole.cut(axis, at, size))
        at += size
    return parts


def _gather(graph: Graph, node: Node) -> list[View]:
    call, view = graph.call(node), graph.view(node.inputs[0])
    index, axis = graph.constants.get(node.inputs[1]), call.number("axis", 0) % len(view.shape)
    require(index is not None and index.ndim == 0, "it takes more than one place, or one that is not known before")
    at = int(index)  # type: ignore[arg-type]
    require(-view.shape[axis] <= at < view.shape[axis], "it takes a place that there is not")
    return [view.cut(axis, at % view.shape[axis], 1).without(axis)]


def parts_of(graph: Graph, node: Node, whole: View) -> list[tuple[str, View]]:
    """Names of what a Concat or Pad puts together, each with its place in the whole."""
    if node.operator == "Concat":
        return list(zip(node.inputs, _cut_in_turn(graph, node, whole, node.inputs), strict=True))
    name, part = node.inputs[0], whole
    for axis, (before, after) in enumerate(pad_widths(graph, node)):
        part = part.cut(axis, max(before, 0), graph.shapes[name][axis] + min(before, 0) + min(after, 0))
    return [(name, part)]


def pad_widths(graph: Graph, node: Node) -> list[tuple[int, int]]:
    """By how many numbers a Pad makes each axis longer, before and behind what is there."""
    call, shape = graph.call(node), graph.shapes[node.inputs[0]]
    axes = [a % len(shape) for a in call.numbers(3)] if call.has(3) else list(range(len(shape)))
    sizes, pads = call.numbers(1), [(0, 0)] * len(shape)
    require(len(set(axes)) == len(axes), "it pads an axis twice")
    for i, axis in enumerate(axes):
        pads[axis] = (sizes[i], sizes[i + len(axes)])
        kept = shape[axis] + min(pads[axis][0], 0) + min(pads[axis][1], 0)
        require(kept >= 1, "it cuts an axis away that it pads")
    return pads


def _concat(graph: Graph, node: Node) -> list[View]:
    """Whatever is not in its place already is copied there."""
    name = node.outputs[0]
    whole = graph.places[name] if name in graph.places else graph.writer.new(graph.shapes[name])
    for source, part in parts_of(graph, node, whole):
        _fill(graph, graph.view(source), part)
    return [whole]


def _pad(graph: Graph, node: Node) -> list[View]:
    """The same, with numbers around it, or with what lies at the edges; a negative width cuts."""
    (name, *_), shape = node.inputs, graph.shapes[node.outputs[0]]
    mode = node.attributes.get("mode", b"constant")
    whole = graph.places[node.outputs[0]] if node.outputs[0] in graph.places else graph.writer.new(shape)
    given = len(node.inputs) > 2 and node.inputs[2]
    value = graph.view(node.inputs[2]) if given else graph.writer.constant(np.zeros((), np.float32))
    value, source = graph.writer.reshape(value, ()), graph.view(name)
    for axis, (before, after) in enumerate(pad_widths(graph, node)):
        source = source.cut(axis, max(-before, 0), source.shape[axis] + min(before, 0) + min(after, 0))
        for start, size in ((0, before), (shape[axis] - after, after)):
            if size > 0 and mode == b"constant":
                graph.writer.elementwise("copy", [value], whole.cut(axis, start, size))
    ((_, part),) = parts_of(graph, node, whole)
    _fill(graph, source, part)
    if mode != b"constant":
        require(mode in MIRRORED, "it pads in a way that the library has not")
        _mirror(graph, whole, pad_widths(graph, node), MIRRORED[mode])
    return [whole]


MIRRORED: dict[object, Callable[[int, int], int]] = {
    b"edge": lambda place, size: min(max(place, 0), size - 1),
    b"reflect": lambda place, size: -place if place < 0 else 2 * size - 2 - place,
    b"wrap": lambda place, size: place % size,
}
"""What stands at a place before 0 or from `size` on, as a place of the axis that is padded."""


def _mirror(graph: Graph, whole: View, pads: Sequence[tuple[int, int]], seen: Callable[[int, int], int]) -> None:
    """Fill the edges of a value whose middle is there, one axis after the other."""
    middle = whole
    for axis, (before, after) in enumerate(pads):
        middle = middle.cut(axis, before, middle.shape[axis] - before - after)
    for axis, (before, after) in enumerate(pads):
        require(min(before, after) >= 0 and max(before, after) <= MOST_PLACES, "its edges are too wide, or cut")
        size = middle.shape[axis]
        for place in (*range(-before, 0), *range(size, size + after)):
            at = seen(place, size)
            require(0 <= at < size, "it pads with more than there is")
            graph.writer.elementwise("copy", [middle.cut(axis, at, 1)], middle.cut(axis, place, 1))
        middle = middle.cut(axis, -before, size + before + after)


def _fill(graph: Graph, made: View, part: View) -> None:
    if not (made.store is part.store and made.lies_as(part)):
        graph.writer.elementwise("copy", [made], part)


Operator = Callable[[Graph, Node], "list[View]"]
VIEWS: dict[str, Operator] = {
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"), _reshape),
    "Expand": _expand,
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
}
"""Operators that only look at what is there in another way."""
JOINED: dict[str, Operator] = {"Concat": _concat, "Pad": _pad}
"""Operators that put values together, each made where it will lie if its maker can do that."""
