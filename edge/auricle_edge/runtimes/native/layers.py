"""Whole layers of evaluation graphs, written as the instructions that there are."""

from __future__ import annotations

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
    """One axis, stride 1, one group: a product for each place of the kernel, added up where the result will lie."""
    call, writer = graph.call(node), graph.writer
    x, w = (graph.view(name) for name in node.inputs[:2])
    require(len(x.shape) == 3 and call.number("group", 1) == 1, "it is not along one axis, or has groups")
    plain = call.list("strides", [1]) == [1] and call.list("dilations", [1]) == [1]
    require(
        plain and node.attributes.get("auto_pad", b"NOTSET") == b"NOTSET", "it has a stride, a dilation or auto_pad"
    )
    zero = writer.constant(np.zeros((), np.float32))
    (batch, channels, steps), (made, _, kernel) = x.shape, w.shape
    require(kernel <= MOST_PLACES, "its kernel is too long")
    before, after = call.list("pads", [0, 0])
    padded = writer.elementwise("copy", [zero], writer.new((batch, channels, steps + before + after)))
    writer.elementwise("copy", [x], padded.cut(2, before, steps))
    out = writer.new(graph.shapes[node.outputs[0]])
    add = writer.reshape(graph.view(node.inputs[2]), (made, 1)) if call.has(2) else zero
    writer.elementwise("copy", [add], out)
    for k in range(kernel):
        weights = w.cut(2, k, 1).without(2).broadcast((batch, made, channels))
        writer.product(weights, padded.cut(2, k, out.shape[2]), out, out)
    return [out]


def _max_pool(graph: Graph, node: Node) -> list[View]:
    """One axis, without padding: the larger of shifted copies."""
    call, x = graph.call(node), graph.view(node.inputs[0])
    require(len(x.shape) == 3 and len(node.outputs) == 1, "it is not along one axis")
    (kernel,), (stride,) = call.list("kernel_shape"), call.list("strides", [1])
    plain = (
        not any(call.list("pads", [0, 0])) and call.list("dilations", [1]) == [1] and not call.number("ceil_mode", 0)
    )
    require(plain and node.attributes.get("auto_pad", b"NOTSET") == b"NOTSET", "it has padding, a dilation or auto_pad")
    require(kernel <= MOST_PLACES, "its kernel is too long")
    size = graph.shapes[node.outputs[0]][2]
    made = x.cut(2, 0, size, stride)
    for k in range(1, kernel):
        made = graph.writer.elementwise("max", [made, x.cut(2, k, size, stride)])
    return [made]


LAYERS: dict[str, Operator] = {"Conv": _conv, "GRU": _gru, "MaxPool": _max_pool}
