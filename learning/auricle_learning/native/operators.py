"""What each operator of a graph becomes: another view of what is there, or instructions.

To add an operator: a function here that takes the graph so far and the node and gives the views of its outputs, its
name in `OPERATORS`, and, where no kernel does it yet, a kernel in `step_kernels.c` with its bounds in `step_core.c`.
Raise `UnsupportedError` for every case that it does not do: then onnxruntime runs the graph.
"""

from __future__ import annotations

import math

import numpy as np

from auricle.checks.onnx_reader import Node
from auricle.checks.operator_call import axis_of
from auricle_learning.native.layout import FLOAT, JOINED, TRUTH, VIEWS, WHOLE, Graph, Operator, require
from auricle_learning.native.views import View, joined_axes
from auricle_learning.native.writer import Writer

UNARY = {
    **{name: name.lower() for name in ("Abs", "Erf", "Exp", "Log", "Neg", "Not", "Relu", "Sigmoid", "Sqrt", "Tanh")},
    "Reciprocal": "reciprocal",
}
BINARY = {
    **{name: name.lower() for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Greater", "Less", "Equal")},
    "GreaterOrEqual": "greater_equal",
    "LessOrEqual": "less_equal",
    "And": "mul",
    "Or": "or",
    "Sum": "add",
}
TRUTHS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "And", "Or", "Not")
SAME = ("Abs", "Neg", "Identity", "Max", "Min", "Where", "Concat", "Pad", "Slice", "Gather", "Split", "Expand")


def _unary(graph: Graph, node: Node) -> list[View]:
    out = graph.places.get(node.outputs[0])
    return [graph.writer.elementwise(UNARY[node.operator], [graph.view(node.inputs[0])], out)]


def _binary(graph: Graph, node: Node) -> list[View]:
    """Of two or, as Max, Min and Sum may be, of any number."""
    kind, shape = BINARY[node.operator], graph.shapes[node.outputs[0]]
    out = graph.places.get(node.outputs[0])
    inputs = [graph.view(name) for name in node.inputs]
    require(len(inputs) == 2 or node.operator in ("Max", "Min", "Sum"), "it has more or fewer than two inputs")
    if len(inputs) == 1:
        return [graph.writer.elementwise("copy", inputs, out)]
    made = inputs[0]
    for i, other in enumerate(inputs[1:], 2):
        made = graph.writer.elementwise(kind, [made, other], out if i == len(inputs) else None)
    return [made if made.shape == shape else made.broadcast(shape)]


def _where(graph: Graph, node: Node) -> list[View]:
    inputs = [graph.view(name) for name in node.inputs]
    require(len(inputs) == 3, "it has more or fewer than three inputs")
    return [graph.writer.elementwise("where", inputs, graph.places.get(node.outputs[0]))]


def _cast(graph: Graph, node: Node) -> list[View]:
    to = {1: FLOAT, 11: FLOAT, 9: TRUTH, 6: WHOLE, 7: WHOLE}.get(graph.call(node).number("to", 0))
    view, kind = graph.view(node.inputs[0]), graph.kind(node.inputs[0])
    require(to is not None and not (to == WHOLE and kind == FLOAT), "it makes a type that is not a float or truth")
    assert to is not None
    graph.kinds[node.outputs[0]] = to
    return [graph.writer.elementwise("truth", [view]) if to == TRUTH and kind != TRUTH else view]


def _in_blocks(graph: Graph, node: Node, add: View | None = None) -> list[View]:
    """A product one of whose matrices was never put together: sums over its columns, or columns of the result."""
    left, right = (graph.blocks(name) for name in node.inputs[:2])
    name = node.outputs[0]
    out = graph.places.get(name)
    out = graph.writer.new(graph.shapes[name]) if out is None else out
    start = 0
    for b in right:
        part, done = out.cut(1, start, b.shape[1]), 0
        so_far = None if add is None else add.cut(1, start, b.shape[1])
        for a in left:
            so_far = graph.writer.product(a, b.cut(0, done, a.shape[1]), so_far, part)
            done += a.shape[1]
        start += b.shape[1]
    return [out]


def _matrix_product(graph: Graph, node: Node) -> list[View]:
    if graph.apart.keys() & set(node.inputs):
        return _in_blocks(graph, node)
    a, b = (graph.view(name) for name in node.inputs)
    out = graph.places.get(node.outputs[0])
    shape = graph.shapes[node.outputs[0]]
    require(len(a.shape) >= 2 and len(b.shape) >= 2, "it multiplies a vector")
    if len(b.shape) == 2:
        rows = graph.writer.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
        target = None if out is None else out.reshaped((rows.shape[0], b.shape[1]))
        made = graph.writer.product(rows, b, None, target)
        if out is None:
            return [graph.writer.reshape(made, shape)]
        if target is None:
            graph.writer.elementwise("copy", [graph.writer.reshape(made, shape)], out)
        return [out]
    made = graph.writer.new(shape) if out is None else out
    wide = [view.broadcast((*shape[:-2], *view.shape[-2:])) for view in (a, b)]
    if wide[1].strides[-1] != 1 and all(wide[1].strides):
        wide[1] = graph.writer.dense(wide[1])
    _products(graph.writer, wide[0], wide[1], made)
    return [made]


def _products(writer: Writer, a: View, b: View, out: View) -> None:
    """A product for each place of all axes but the last two, as many in an instruction as strides allow."""
    lead = joined_axes(out.shape[:-2], *(view.strides[:-2] for view in (a, b, out)))
    if len(lead) > 1:
        axis = next(axis for axis, size in enumerate(out.shape) if size != 1)
        for i in range(out.shape[axis]):
            _products(writer, *(view.cut(axis, i, 1).without(axis) for view in (a, b, out)))
        return
    (times, steps) = lead[0] if lead else (1, (0, 0, 0))
    views = [
        View(view.store, view.offset, (times, *view.shape[-2:]), (step, *view.strides[-2:]))
        for view, step in zip((a, b, out), steps, strict=True)
    ]
    writer.product(views[0], views[1], None, views[2])


def _gemm(graph: Graph, node: Node) -> list[View]:
    call, shape = graph.call(node), graph.shapes[node.outputs[0]]
    scales = (node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0))
    require(scales == (1.0, 1.0), "it scales its product")
    add = graph.view(node.inputs[2]).broadcast(shape) if call.has(2) else None
    if graph.apart.keys() & set(node.inputs):
        return _in_blocks(graph, node, add)
    a, b = (graph.view(name) for name in node.inputs[:2])
    a = a.transposed((1, 0)) if call.number("transA", 0) else a
    b = b.transposed((1, 0)) if call.number("transB", 0) else b
    return [graph.writer.product(a, b, add, graph.places.get(node.outputs[0]))]


REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMean": "sum",
    "ReduceSumSquare": "squares",
    "ReduceMax": "max",
    "ReduceMin": "min",
}


def _reduce(graph: Graph, node: Node) -> list[View]:
    call, view = graph.call(node), graph.view(node.inputs[0])
    axes = call.numbers(1) if call.has(1) else call.list("axes", [])
    if not axes and call.number("noop_with_empty_axes", 0):
        return [graph.writer.elementwise("mul", [view, view]) if node.operator == "ReduceSumSquare" else view]
    over = sorted({axis % len(view.shape) for axis in axes} if axes else range(len(view.shape)))
    scale = 1 / math.prod(view.shape[axis] for axis in over) if node.operator == "ReduceMean" else 1.0
    made = graph.writer.reduce(REDUCTIONS[node.operator], view, over, scale)
    return [graph.writer.reshape(made, graph.shapes[node.outputs[0]])]


def _softmax(graph: Graph, node: Node) -> list[View]:
    view = graph.view(node.inputs[0])
    axis = axis_of(graph.call(node).number("axis", -1), len(view.shape))
    require(axis == len(view.shape) - 1, "it is not over the last axis")
    rows = graph.writer.reshape(view, (math.prod(view.shape[:-1]), view.shape[-1]))
    made = graph.writer.softmax(rows, node.operator == "LogSoftmax")
    return [graph.writer.reshape(made, view.shape)]


def _argmax(graph: Graph, node: Node) -> list[View]:
    call, view = graph.call(node), graph.view(node.inputs[0])
    axis = axis_of(call.number("axis", 0), len(view.shape))
    require(axis == len(view.shape) - 1 and not call.number("select_last_index", 0), "it is not over the last axis")
    graph.kinds[node.outputs[0]] = WHOLE
    graph.argmaxes.add(node.outputs[0])
    rows = graph.writer.reshape(view, (math.prod(view.shape[:-1]), view.shape[-1]))
    return [graph.writer.reshape(graph.writer.argmax(rows), graph.shapes[node.outputs[0]])]


def _one_hot(graph: Graph, node: Node) -> list[View]:
    """Where an index is that of its place, the second of two values, else the first; indices are not negative."""
    indices, (name, _, values) = graph.view(node.inputs[0]), node.inputs
    shape = graph.shapes[node.outputs[0]]
    axis = graph.call(node).number("axis", -1) % len(shape)
    require(name in graph.argmaxes, "its indices are not those of largest numbers")
    require(graph.shapes[values] == (2,), "it has more or fewer than two values")
    places = graph.writer.constant(np.arange(shape[axis], dtype=np.float32))
    wide = graph.writer.reshape(indices, [1 if i == axis else size for i, size in enumerate(shape)])
    across = graph.writer.reshape(places, [size if i == axis else 1 for i, size in enumerate(shape)])
    off, on = (graph.writer.reshape(graph.view(values).cut(0, i, 1), ()) for i in range(2))
    graph.kinds[node.outputs[0]] = graph.kind(values)
    return [graph.writer.elementwise("where", [graph.writer.elementwise("equal", [wide, across]), on, off])]


OPERATORS: dict[str, Operator] = {
    **VIEWS,
    **JOINED,
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    "ArgMax": _argmax,
    "Cast": _cast,
    "Gemm": _gemm,
    "MatMul": _matrix_product,
    "OneHot": _one_hot,
    "Where": _where,
}
IN_PLACE = (*UNARY, *BINARY, "Where", "Gemm", "MatMul", *JOINED)
"""Operators that make what they give where it is told."""
