"""Depthwise convolutions of training graphs: many nodes there, an instruction each for the result and both gradients.

A step graph has one as shifts: a product with a channel's weight for each place of the kernel, and their sum; the same
for the gradient of its input, and for that of its weights the product of two batches, summed over all but channels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from auricle.checks.onnx_reader import Node
from auricle_learning.native.layout import Graph, Operator
from auricle_learning.native.views import View
from auricle_learning.native.windows import Axes, KernelWindow, move, whole, window_of
from auricle_learning.native.writer import MOST_PLACES, Writer

WEIGHTED, CORRELATED = "sum of weighted places", "sums of places by a batch"
"""Names that no file's operator has: the checks take those of the ONNX standard alone."""
FEWEST_CHANNELS = 4
"""Fewer are faster as elementwise work, whose rows go over a batch's channels together."""
MOST_TERMS = 256
_KEEPING_ROWS = ("Reshape", "Squeeze", "Unsqueeze")


class WeightedPlace(NamedTuple):
    """What a place of a window sees of a source, and the weights, one a channel, by which it is multiplied."""

    source: str
    axes: Axes
    weights: str


def with_depthwise(graph: Graph, nodes: Sequence[Node], wanted: Iterable[str]) -> list[Node]:
    """The nodes with depthwise convolutions as single ones, and without those that nobody needs any more.

    Parameters
    ----------
    graph
        With shapes and constants.
    nodes
        In order.
    wanted
        Values that are needed after the last.
    """
    search = _Search(graph, nodes)
    gradients = search.gradients()
    inside = {name for node in gradients.values() for name in node.outputs}
    needed, made = set(wanted), list[Node]()
    for node in reversed(nodes):
        name = node.outputs[0]
        if name in gradients:
            node = gradients[name]
        elif name in inside:
            continue  # it is made where the first of them was
        if needed.intersection(node.outputs):
            node = search.as_sum(node)
            made.append(node)
            needed.update(name for name in node.inputs if name)
    return made[::-1]


class _Search:
    """What the values of a graph show of others, and which of them are sums of weighted places of a window."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self._graph, self._nodes = graph, nodes
        self._makers = {name: node for node in nodes for name in node.outputs}
        self._sights: dict[str, tuple[str, Axes]] = {}
        self._terms: dict[str, tuple[WeightedPlace, ...]] = {}
        for node in nodes:
            self._follow(node)

    def _sight(self, name: str) -> tuple[str, Axes]:
        own = name, tuple(whole(size) for size in self._graph.shapes[name])
        return self._sights.get(name, own)

    def _follow(self, node: Node) -> None:
        """Learn what a node's value is, from what is known of its inputs."""
        name = node.outputs[0]
        if (moved := move(self._graph, self._makers, node)) is not None:
            source, change = moved
            first, axes = self._sight(source)
            if (seen := change(axes)) is not None:
                self._sights[name] = first, seen
            changed = [(term, change(term.axes)) for term in self._terms.get(source, ())]
            terms = tuple(term._replace(axes=axes) for term, axes in changed if axes is not None)
            if terms and len(terms) == len(changed):
                self._terms[name] = terms
        elif node.operator == "Mul":
            for value, weights in (node.inputs, node.inputs[::-1]):
                if self._are_weights(weights, value) and self._graph.shapes[value] == self._graph.shapes[name]:
                    self._terms[name] = (WeightedPlace(*self._sight(value), weights),)
        elif node.operator == "Add":
            left, right = (self._terms.get(each, ()) for each in node.inputs)
            if left and right and left[0].source == right[0].source and len(left) + len(right) <= MOST_TERMS:
                self._terms[name] = left + right

    def _are_weights(self, name: str, value: str) -> bool:
        """Whether a value is one number a channel of another one."""
        shape, of = self._graph.shapes[name], self._graph.shapes[value]
        return len(of) >= 3 and shape[-1:] == of[-1:] and of[-1] >= FEWEST_CHANNELS and set(shape[:-1]) <= {1}

    def as_sum(self, node: Node) -> Node:
        """The sum that a node makes as one of places, else the node."""
        terms = self._terms.get(node.outputs[0], ())
        if node.operator != "Add" or not terms:
            return node
        axes = tuple(term.axes for term in terms)
        if window_of(axes, self._graph.shapes[terms[0].source]) is None:
            return node
        inputs = (terms[0].source, *(term.weights for term in terms))
        return Node(WEIGHTED, "", node.name, inputs, node.outputs, {"axes": axes})

    def gradients(self) -> dict[str, Node]:
        """Sums over all but channels of places of a source by one batch, by the first of those of each pair."""
        choices: dict[str, list[tuple[str, str, Axes]]] = {}
        for node in self._nodes:
            name = node.outputs[0]
            if node.operator == "ReduceSum" and len(self._graph.shapes[name]) == 1:
                choices[name] = self._pairs(name)
        count = Counter(each[:2] for pairs in choices.values() for each in pairs)
        groups: dict[tuple[str, str], list[tuple[str, Axes]]] = defaultdict(list)
        for name, pairs in choices.items():
            if pairs:
                source, batch, axes = max(pairs, key=lambda each: count[each[:2]])
                groups[source, batch].append((name, axes))
        made = {}
        for inputs, members in groups.items():
            every = tuple(axes for _, axes in members)
            if len(members) > 1 and window_of(every, self._graph.shapes[inputs[0]]) is not None:
                names = tuple(name for name, _ in members)
                made[names[0]] = Node(CORRELATED, "", "", inputs, names, {"axes": every})
        return made

    def _pairs(self, name: str) -> list[tuple[str, str, Axes]]:
        """Of a sum over all but channels of a product: what a place sees of a source, and the whole batch."""
        channels = self._graph.shapes[name][-1:]
        while (node := self._makers.get(name)) is not None and self._keeps_channels(node, channels):
            name = node.inputs[0]
        shape = self._graph.shapes[name]
        if node is None or node.operator != "Mul" or len(shape) < 3 or shape[-1] < FEWEST_CHANNELS:
            return []
        pairs = []
        for value, batch in (node.inputs, node.inputs[::-1]):
            if self._graph.shapes[value] == self._graph.shapes[batch] == shape:
                pairs.append((*self._sight(value), batch))
        return [(source, batch, axes) for source, axes, batch in pairs]

    def _keeps_channels(self, node: Node, channels: tuple[int, ...]) -> bool:
        """Whether a node sums or reshapes a value, and the last axis of all is that of channels."""
        shape = self._graph.shapes[node.inputs[0]]
        if shape[-1:] != channels or node.operator not in (*_KEEPING_ROWS, "ReduceSum"):
            return False
        if node.operator != "ReduceSum":
            return self._graph.shapes[node.outputs[0]][-1:] == channels
        call = self._graph.call(node)
        axes = call.numbers(1) if call.has(1) else call.list("axes", [])
        return (
            bool(axes) and not call.number("keepdims", 1) and all(axis % len(shape) < len(shape) - 1 for axis in axes)
        )


def _sum_node(graph: Graph, node: Node) -> list[View]:
    source = graph.view(node.inputs[0])
    window = window_of(node.attributes["axes"], source.shape)
    assert window is not None
    out = graph.writer.new(graph.shapes[node.outputs[0]])
    weights = [graph.writer.reshape(graph.view(name), out.shape[-1:]) for name in node.inputs[1:]]
    sum_places(graph.writer, window, source, weights, out)
    return [out]


def sum_places(writer: Writer, window: KernelWindow, source: View, weights: Sequence[View], out: View) -> None:
    """Fill a dense value with the sum over the places of a window of what each sees, by its weights, one a channel."""
    seen = [place for place in range(len(weights)) if window.sees(place)]
    rows = _side_by_side(writer, [weights[place] for place in seen])
    source, wide = window.in_order(writer, source), window.in_order(writer, out)
    assert wide.store is out.store
    for start in range(0, len(seen), MOST_PLACES):
        some = seen[start:][:MOST_PLACES]
        target = wide if start == 0 else writer.new(wide.shape)
        writer.depthwise(source, window.walk(some, source), rows.cut(0, start, len(some)), target, weighted=True)
        if start:
            writer.elementwise("add", [wide, target], wide)


def _correlation_node(graph: Graph, node: Node) -> list[View]:
    source, batch = (graph.view(name) for name in node.inputs)
    window = window_of(node.attributes["axes"], source.shape)
    assert window is not None
    return correlations(graph.writer, window, source, batch)


def correlations(writer: Writer, window: KernelWindow, source: View, batch: View) -> list[View]:
    """For each place of a window the sum of what it sees of a source by a batch, one a channel."""
    source, batch = window.in_order(writer, source), window.in_order(writer, batch)
    made = [writer.constant(np.zeros((), np.float32)).broadcast(batch.shape[-1:])] * len(window.axes)
    seen = [place for place in range(len(made)) if window.sees(place)]
    for start in range(0, len(seen), MOST_PLACES):
        some = seen[start:][:MOST_PLACES]
        sums = writer.new((len(some), batch.shape[-1]))
        writer.depthwise(source, window.walk(some, source), sums, batch, weighted=False)
        for i, place in enumerate(some):
            made[place] = sums.cut(0, i, 1).without(0)
    return made


def _side_by_side(writer: Writer, rows: Sequence[View]) -> View:
    """Rows of numbers (N,) as a dense matrix: by one copy, or none, where they lie in a pattern."""
    first, *others = rows
    step = others[0].offset - first.offset if others else 0
    if all(row == first._replace(offset=first.offset + i * step) for i, row in enumerate(rows)):
        return writer.dense(View(first.store, first.offset, (len(rows), *first.shape), (step, *first.strides)))
    made = writer.new((len(rows), *first.shape))
    for i, row in enumerate(rows):
        writer.elementwise("copy", [row], made.cut(0, i, 1).without(0))
    return made


DEPTHWISE: dict[str, Operator] = {WEIGHTED: _sum_node, CORRELATED: _correlation_node}
