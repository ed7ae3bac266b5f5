"""Whole layers of evaluation graphs, written as the instructions that there are."""

from __future__ import annotations

import math

import numpy as np

from auricle.checks.onnx_reader import Node
from auricle_edge.runtimes.native.layout import Graph, Operator, require
from auricle_edge.runtimes.native.program import Writer
from auricle_edge.runtimes.native.views import View

MOST_PLACES = 2000
"""Of a recurrence or a kernel: each has instructions of its own."""


def _gru(graph: Graph, node: Node) -> list[View]:
    """n + z (h - n) with z, r = sigmoid(x W + h R), n = tanh(x W + r (h R)): the cell of PyTorch.

    Inputs x (T, B, I), weights (D, 3H, I) and (D, 3H, H), biases (D, 6H), no lengths, first state (D, B, H); gives all
    states (T, D, B, H) and the last ones (D, B, H).
    """
    call, writer = graph.call(node), graph.writer
    allowed = {"hidden_size", "layout", "direction", "linear_before_reset"}
    plain = call.number("linear_before_reset", 0) == 1 and call.number("layout", 0) == 0
    require(plain and set(node.attributes) <= allowed, "it has a cell other than PyTorch's")
    require(call.has(3) and not call.has(4), "it has no biases, or lengths")
    x, w, r, bias = (graph.view(name) for name in node.inputs[:4])
    (steps, batch, width), (both, gates, hidden) = x.shape, r.shape
    require(steps <= MOST_PLACES, "it has too many steps")
    direction = node.attributes.get("direction", b"forward")
    every = writer.new((steps, both, batch, hidden))
    last = writer.new((both, batch, hidden))
    for d in range(both):
        first, backward = bias.cut(0, d, 1).without(0), direction == b"reverse" or d == 1
        taken = writer.product(
            writer.reshape(x, (steps * batch, width)),
            w.cut(0, d, 1).without(0).transposed((1, 0)),
            first.cut(0, 0, gates).broadcast((steps * batch, gates)),
        )
        recurrent = writer.dense(r.cut(0, d, 1).without(0).transposed((1, 0)))
        added = first.cut(0, gates, gates).broadcast((batch, gates))
        if call.has(5):
            state = graph.view(node.inputs[5]).cut(0, d, 1).without(0)
        else:
            state = writer.constant(np.zeros((), np.float32)).broadcast((batch, hidden))
        for t in reversed(range(steps)) if backward else range(steps):
            out = every.cut(0, t, 1).without(0).cut(0, d, 1).without(0)
            given = taken.cut(0, t * batch, batch)
            state = _cell(writer, given, writer.product(state, recurrent, added), state, out)
        writer.elementwise("copy", [state], last.cut(0, d, 1).without(0))
    return [every, last][: len(node.outputs)]


def _cell(writer: Writer, taken: View, recurrent: View, state: View, out: View) -> View:
    hidden = state.shape[1]
    both = writer.elementwise("add", [taken.cut(1, 0, 2 * hidden), recurrent.cut(1, 0, 2 * hidden)])
    both = writer.elementwise("sigmoid", [both])
    update, reset = both.cut(1, 0, hidden), both.cut(1, hidden, hidden)
    kept = writer.elementwise("mul", [reset, recurrent.cut(1, 2 * hidden, hidden)])
    new = writer.elementwise("tanh", [writer.elementwise("add", [taken.cut(1, 2 * hidden, hidden), kept])])
    change = writer.elementwise("mul", [update, writer.elementwise("sub", [state, new])])
    return writer.elementwise("add", [new, change], out)


def _conv(graph: Graph, node: Node) -> list[View]:
    """Any axes, strides, dilations and groups, with the channels of a place side by side.

    A product for each run of kernel places whose numbers lie in a row, added up where the result will lie; where every
    group has one channel, as in depthwise convolutions, elementwise work instead.
    """
    call, writer = graph.call(node), graph.writer
    x, w = (graph.view(name) for name in node.inputs[:2])
    rank, groups = len(x.shape) - 2, call.number("group", 1)
    require(rank in (1, 2) and node.attributes.get("auto_pad", b"NOTSET") == b"NOTSET", "it is of another form")
    kernel, shape = w.shape[2:], graph.shapes[node.outputs[0]]
    require(math.prod(kernel) <= MOST_PLACES, "its kernel is too large")
    strides, dilations = call.list("strides", [1] * rank), call.list("dilations", [1] * rank)
    source = _padded(graph, x, call.list("pads", [0] * 2 * rank))
    out = writer.new((shape[0], *shape[2:], shape[1]))
    inner = w.shape[1]
    bias = graph.view(node.inputs[2]) if call.has(2) else None
    weights = w.transposed((*range(2, rank + 2), 1, 0))
    if inner == 1 and groups == shape[1] == x.shape[1]:
        _depthwise(graph, source, weights, bias, out, strides, dilations)
        return [out.transposed((0, rank + 1, *range(1, rank + 1)))]
    joined = groups == 1 and dilations[-1] == 1
    weights = writer.dense(weights)
    zero = writer.constant(np.zeros((), np.float32)) if bias is None else bias
    for group in range(groups):
        each = shape[1] // groups
        part = out.cut(rank + 1, group * each, each)
        add = (zero if bias is None else zero.cut(0, group * each, each)).broadcast(part.shape)
        for at in np.ndindex(*(kernel[:-1] if joined else kernel)):
            seen = source.cut(rank + 1, group * inner, inner)
            for axis, place in enumerate(at):
                seen = seen.cut(axis + 1, place * dilations[axis], out.shape[axis + 1], strides[axis])
            if joined:  # numbers of all places of the last axis lie in a row
                row, step = source.strides[rank], strides[-1]
                seen = View(
                    seen.store,
                    seen.offset,
                    (*seen.shape[:rank], out.shape[rank], kernel[-1] * inner),
                    (*seen.strides[:rank], row * step, 1),
                )
                factor = writer.reshape(_at(weights, at), (kernel[-1] * inner, shape[1]))
            else:
                factor = _at(weights, at).cut(1, group * each, each)
            _products(writer, seen, factor, add, part)
            add = part
    return [out.transposed((0, rank + 1, *range(1, rank + 1)))]


def _at(weights: View, place: tuple[int, ...]) -> View:
    for index in place:
        weights = weights.cut(0, index, 1).without(0)
    return weights


def _padded(graph: Graph, x: View, pads: list[int]) -> View:
    """A batch (B, C, ...) with zeros around it, the channels of a place side by side: (B, ..., C)."""
    rank, writer = len(x.shape) - 2, graph.writer
    x = x.transposed((0, *range(2, rank + 2), 1))
    if not any(pads):
        return writer.dense(x)
    require(all(width >= 0 for width in pads), "it cuts what it reads")
    sizes = [x.shape[i + 1] + pads[i] + pads[rank + i] for i in range(rank)]
    inner = whole = writer.new((x.shape[0], *sizes, x.shape[-1]))
    zero = writer.constant(np.zeros((), np.float32))
    for i in range(rank):
        for start, width in ((0, pads[i]), (sizes[i] - pads[rank + i], pads[rank + i])):
            if width:
                writer.elementwise("copy", [zero], inner.cut(i + 1, start, width))
        inner = inner.cut(i + 1, pads[i], x.shape[i + 1])
    writer.elementwise("copy", [x], inner)
    return whole


def _products(writer: Writer, seen: View, factor: View, add: View, out: View) -> None:
    """A matrix of rows for each place of the axes before the last two; as few instructions as strides allow."""
    if len(seen.shape) == 3:
        writer.product(seen, factor.broadcast((seen.shape[0], *factor.shape)), add, out)
        return
    for i in range(seen.shape[0]):
        first = [view.cut(0, i, 1).without(0) for view in (seen, add, out)]
        _products(writer, first[0], factor, first[1], first[2])


def _depthwise(
    graph: Graph, source: View, weights: View, bias: View | None, out: View, strides: list[int], dilations: list[int]
) -> None:
    """The sum over kernel places of what is seen there by the channel's weight (..., 1, C)."""
    writer, rank = graph.writer, len(out.shape) - 2
    weights = writer.dense(weights)
    places = list(np.ndindex(*weights.shape[:rank]))
    total = bias
    for at in places:
        seen = source
        for axis, place in enumerate(at):
            seen = seen.cut(axis + 1, place * dilations[axis], out.shape[axis + 1], strides[axis])
        made = writer.elementwise("mul", [seen, _at(weights, at).without(0)], out if total is None else None)
        total = made if total is None else writer.elementwise("add", [total, made], out if at == places[-1] else None)


def _max_pool(graph: Graph, node: Node) -> list[View]:
    """Without padding: the larger of shifted copies."""
    call, x = graph.call(node), graph.view(node.inputs[0])
    rank, kernel = len(x.shape) - 2, call.list("kernel_shape")
    strides, dilations = call.list("strides", [1] * rank), call.list("dilations", [1] * rank)
    plain = not any(call.list("pads", [0])) and not call.number("ceil_mode", 0) and len(node.outputs) == 1
    require(plain and node.attributes.get("auto_pad", b"NOTSET") == b"NOTSET", "it has padding, or gives places too")
    require(math.prod(kernel) <= MOST_PLACES, "its kernel is too large")
    shape, made = graph.shapes[node.outputs[0]], None
    for at in np.ndindex(*kernel):
        seen = x
        for axis, place in enumerate(at):
            seen = seen.cut(axis + 2, place * dilations[axis], shape[axis + 2], strides[axis])
        made = seen if made is None else graph.writer.elementwise("max", [made, seen])
    assert made is not None
    return [made]


def _mean_over_places(graph: Graph, node: Node) -> list[View]:
    """Of each channel."""
    view = graph.view(node.inputs[0])
    over = range(2, len(view.shape))
    made = graph.writer.reduce("sum", view, list(over), 1 / math.prod(view.shape[axis] for axis in over))
    return [graph.writer.reshape(made, graph.shapes[node.outputs[0]])]


LAYERS: dict[str, Operator] = {
    "Conv": _conv,
    "GRU": _gru,
    "GlobalAveragePool": _mean_over_places,
    "MaxPool": _max_pool,
}
