"""Recurrent layers, written as the instructions that there are: a product and some elementwise work a step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from auricle.checks.onnx_reader import Node
from auricle_learning.native.layout import MOST_PLACES, Graph, Operator, require
from auricle_learning.native.views import View
from auricle_learning.native.writer import Writer

Step = Callable[[int, "list[View]", View], "list[View]"]
"""From a time, the states (B, H) before it and a place for the first of them to the states after it."""


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

    def direction(d: int) -> Step:
        bias, gates = graph.view(node.inputs[3]).cut(0, d, 1).without(0), graph.shapes[node.inputs[2]][1]
        given, recurrent = _products_of_inputs(graph, node, d, bias.cut(0, 0, gates))
        added = bias.cut(0, gates, gates)

        def step(t: int, states: list[View], out: View) -> list[View]:
            (state,) = states
            product = writer.product(state, recurrent, added.broadcast((state.shape[0], gates)))
            return [_gru_cell(writer, given(t), product, state, out)]

        return step

    return _recurrence(graph, node, 1, direction)


def _gru_cell(writer: Writer, taken: View, recurrent: View, state: View, out: View) -> View:
    hidden = state.shape[1]
    both = writer.elementwise("add", [taken.cut(1, 0, 2 * hidden), recurrent.cut(1, 0, 2 * hidden)])
    both = writer.elementwise("sigmoid", [both])
    update, reset = both.cut(1, 0, hidden), both.cut(1, hidden, hidden)
    kept = writer.elementwise("mul", [reset, recurrent.cut(1, 2 * hidden, hidden)])
    new = writer.elementwise("tanh", [writer.elementwise("add", [taken.cut(1, 2 * hidden, hidden), kept])])
    change = writer.elementwise("mul", [update, writer.elementwise("sub", [state, new])])
    return writer.elementwise("add", [new, change], out)


def _lstm(graph: Graph, node: Node) -> list[View]:
    """h = o tanh(c) with c = f c + i g, the gates i, o, f = sigmoid(x W + h R) and g = tanh(x W + h R).

    Inputs x (T, B, I), weights (D, 4H, I) and (D, 4H, H), biases (D, 8H) or none, no lengths, first states and cells
    (D, B, H), no peepholes; gives all states (T, D, B, H), the last ones and the last cells (D, B, H).
    """
    call, writer = graph.call(node), graph.writer
    allowed = {"hidden_size", "layout", "direction", "input_forget"}
    plain = not (call.number("layout", 0) or call.number("input_forget", 0)) and set(node.attributes) <= allowed
    require(plain and not call.has(7), "it has a cell other than PyTorch's")
    require(not call.has(4), "it has lengths")

    def direction(d: int) -> Step:
        bias, gates = None, graph.shapes[node.inputs[2]][1]
        if call.has(3):
            each = graph.view(node.inputs[3]).cut(0, d, 1).without(0)
            bias = writer.elementwise("add", [each.cut(0, 0, gates), each.cut(0, gates, gates)])
        given, recurrent = _products_of_inputs(graph, node, d, bias)

        def step(t: int, states: list[View], out: View) -> list[View]:
            return _lstm_cell(writer, writer.product(states[0], recurrent, given(t)), states[1], out)

        return step

    return _recurrence(graph, node, 2, direction)


def _lstm_cell(writer: Writer, gates: View, cell: View, out: View) -> list[View]:
    hidden = cell.shape[1]
    open_, new = writer.elementwise("sigmoid", [gates.cut(1, 0, 3 * hidden)]), gates.cut(1, 3 * hidden, hidden)
    let_in, let_out, keep = (open_.cut(1, i * hidden, hidden) for i in range(3))
    added = writer.elementwise("mul", [let_in, writer.elementwise("tanh", [new])])
    cell = writer.elementwise("add", [writer.elementwise("mul", [keep, cell]), added])
    return [writer.elementwise("mul", [let_out, writer.elementwise("tanh", [cell])], out), cell]


def _products_of_inputs(
    graph: Graph, node: Node, direction: int, bias: View | None
) -> tuple[Callable[[int], View], View]:
    """What x W adds to the gates (B, gates) of each time, made at once, and the recurrent weights (H, gates)."""
    x, w, r = (graph.view(name) for name in node.inputs[:3])
    (steps, batch, width), gates = x.shape, r.shape[1]
    made = graph.writer.product(
        graph.writer.reshape(x, (steps * batch, width)),
        w.cut(0, direction, 1).without(0).transposed((1, 0)),
        None if bias is None else bias.broadcast((steps * batch, gates)),
    )
    recurrent = graph.writer.dense(r.cut(0, direction, 1).without(0).transposed((1, 0)))
    return lambda t: made.cut(0, t * batch, batch), recurrent


def _recurrence(graph: Graph, node: Node, states: int, direction: Callable[[int], Step]) -> list[View]:
    """All states (T, D, B, H) and the last ones (D, B, H); the first ones are the inputs from the sixth on."""
    call, writer = graph.call(node), graph.writer
    (steps, batch, _), (both, _, hidden) = (graph.shapes[name] for name in (node.inputs[0], node.inputs[2]))
    require(steps <= MOST_PLACES, "it has too many steps")
    every = writer.new((steps, both, batch, hidden))
    last = [writer.new((both, batch, hidden)) for _ in range(states)]
    for d in range(both):
        step = direction(d)
        now: list[View] = []
        for i in range(5, 5 + states):
            if call.has(i):
                now.append(graph.view(node.inputs[i]).cut(0, d, 1).without(0))
            else:
                now.append(writer.constant(np.zeros((), np.float32)).broadcast((batch, hidden)))
        backward = node.attributes.get("direction", b"forward") == b"reverse" or d == 1
        for t in reversed(range(steps)) if backward else range(steps):
            now = step(t, now, every.cut(0, t, 1).without(0).cut(0, d, 1).without(0))
        for view, place in zip(now, last, strict=True):
            writer.elementwise("copy", [view], place.cut(0, d, 1).without(0))
    return [every, *last][: len(node.outputs)]


RECURRENT: dict[str, Operator] = {"GRU": _gru, "LSTM": _lstm}
