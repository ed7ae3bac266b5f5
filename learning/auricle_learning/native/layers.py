"""Convolutions, pooling and layers that normalise, written as the instructions that there are.

Convolutions and pooling are of evaluation graphs, the others of training graphs, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from auricle.checks.onnx_reader import Node
from auricle_learning.native.depthwise import sum_places
from auricle_learning.native.layout import MOST_PLACES, Graph, Operator, require
from auricle_learning.native.views import View
from auricle_learning.native.windows import whole, window_of
from auricle_learning.native.writer import Writer


def _conv(graph: Graph, node: Node) -> list[View]:
    """Any axes, strides, dilations and groups, with the channels of a place side by side.

    A product for each run of kernel places whose numbers lie in a row, added up where the result will lie; where every
    group has one channel, as in depthwise convolutions, an instruction of its own.
    """
    call, writer = graph.call(node), graph.writer
    x, w = (graph.view(name) for name in node.inputs[:2])
    rank, groups = len(x.shape) - 2, call.number("group", 1)
    require(rank in (1, 2) and node.attributes.get("auto_pad", b"NOTSET") == b"NOTSET", "it is of another form")
    kernel, shape = w.shape[2:], graph.shapes[node.outputs[0]]
    require(math.prod(kernel) <= MOST_PLACES, "its kernel is too large")
    strides, dilations = call.list("strides", [1] * rank), call.list("dilations", [1] * rank)
    pads = call.list("pads", [0] * 2 * rank)
    last = x.transposed((0, *range(2, rank + 2), 1))
    out = writer.new((shape[0], *shape[2:], shape[1]))
    inner = w.shape[1]
    bias = graph.view(node.inputs[2]) if call.has(2) else None
    weights = w.transposed((*range(2, rank + 2), 1, 0))
    if inner == 1 and groups == shape[1] == x.shape[1]:
        _depthwise(
            graph, last, weights, out, [(strides[i], dilations[i], pads[i], pads[rank + i]) for i in range(rank)]
        )
        if bias is not None:
            writer.elementwise("add", [out, bias], out)
        return [out.transposed((0, rank + 1, *range(1, rank + 1)))]
    source = _padded(writer, last, 1, pads) if any(pads) else writer.dense(last)
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
                run = (*seen.shape[:rank], out.shape[rank], kernel[-1] * inner)
                seen = View(seen.store, seen.offset, run, (*seen.strides[:rank], source.strides[rank] * strides[-1], 1))
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


def _padded(writer: Writer, x: View, first: int, pads: list[int], number: float = 0.0) -> View:
    """A batch with a number around it, along as many axes from `first` on as there are pairs of widths."""
    rank = len(pads) // 2
    if not any(pads):
        return x
    require(all(width >= 0 for width in pads), "it cuts what it reads")
    shape = list(x.shape)
    for i in range(rank):
        shape[first + i] += pads[i] + pads[rank + i]
    inner = whole = writer.new(tuple(shape))
    around = writer.constant(np.array(number, np.float32))
    for i in range(rank):
        axis = first + i
        for start, width in ((0, pads[i]), (shape[axis] - pads[rank + i], pads[rank + i])):
            if width:
                writer.elementwise("copy", [around], inner.cut(axis, start, width))
        inner = inner.cut(axis, pads[i], x.shape[axis])
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


def _depthwise(graph: Graph, x: View, weights: View, out: View, moves: list[tuple[int, int, int, int]]) -> None:
    """Out = the sum over kernel places of what is seen there by the channel's weight (..., 1, C).

    Of each axis its stride and dilation, and the zeros before and behind it.
    """
    require(all(min(before, after) >= 0 for *_, before, after in moves), "it cuts what it reads")
    axes, rows = [], []
    for at in np.ndindex(*weights.shape[: len(moves)]):
        seen = [whole(size) for size in x.shape]
        for i, (stride, dilation, before, after) in enumerate(moves):
            part = seen[i + 1].pad(before, after).cut(at[i] * dilation, out.shape[i + 1], stride)
            assert part is not None
            seen[i + 1] = part
        axes.append(tuple(seen))
        rows.append(_at(weights, at).without(0))
    window = window_of(tuple(axes), x.shape)
    if window is None:  # one place, which sees everything
        require(len(rows) == 1 and x.shape == out.shape, "its places see what they cannot")
        graph.writer.elementwise("mul", [x, rows[0]], out)
    else:
        sum_places(graph.writer, window, x, rows, out)


def _pool(graph: Graph, node: Node) -> list[View]:
    """The largest, or the mean, of shifted copies; places around the batch are less than any number, or 0."""
    call, writer, x = graph.call(node), graph.writer, graph.view(node.inputs[0])
    rank, kernel, largest = len(x.shape) - 2, call.list("kernel_shape"), node.operator == "MaxPool"
    strides, dilations = call.list("strides", [1] * rank), call.list("dilations", [1] * rank)
    pads = call.list("pads", [0] * 2 * rank)
    plain = not call.number("ceil_mode", 0) and not call.number("storage_order", 0) and len(node.outputs) == 1
    require(plain and node.attributes.get("auto_pad", b"NOTSET") == b"NOTSET", "it is of another form")
    require(largest or not any(pads) or call.number("count_include_pad", 0) == 1, "it does not count its padding")
    require(math.prod(kernel) <= MOST_PLACES, "its kernel is too large")
    x = _padded(writer, x, 2, pads, -math.inf if largest else 0.0)
    shape, made = graph.shapes[node.outputs[0]], None
    for at in np.ndindex(*kernel):
        seen = x
        for axis, place in enumerate(at):
            seen = seen.cut(axis + 2, place * dilations[axis], shape[axis + 2], strides[axis])
        made = seen if made is None else writer.elementwise("max" if largest else "add", [made, seen])
    assert made is not None
    if largest:
        return [made]
    return [writer.elementwise("mul", [made, writer.constant(np.array(1 / math.prod(kernel), np.float32))])]


def _mean_over_places(graph: Graph, node: Node) -> list[View]:
    """Of each channel."""
    view = graph.view(node.inputs[0])
    over = range(2, len(view.shape))
    made = graph.writer.reduce("sum", view, list(over), 1 / math.prod(view.shape[axis] for axis in over))
    return [graph.writer.reshape(made, graph.shapes[node.outputs[0]])]


def _batch(graph: Graph, node: Node) -> list[View]:
    """(x - mean) * (scale / sqrt(variance + epsilon)) + bias, a number of each for a channel."""
    writer, x = graph.writer, graph.view(node.inputs[0])
    require(not graph.call(node).number("training_mode", 0), "it takes the statistics of its batch")
    scale, bias, mean, variance = (_by_channel(graph.view(name), x) for name in node.inputs[1:5])
    factor = writer.elementwise("mul", [scale, _inverse(writer, variance, _epsilon(node))])
    made = writer.elementwise("mul", [writer.elementwise("sub", [x, mean]), factor])
    return [writer.elementwise("add", [made, bias], graph.places.get(node.outputs[0]))]


def _instance(graph: Graph, node: Node) -> list[View]:
    """The same with the statistics of a sample's channel."""
    writer, x = graph.writer, graph.view(node.inputs[0])
    scale, bias = (_by_channel(graph.view(name), x) for name in node.inputs[1:3])
    made, _, _ = _normal(writer, x, range(2, len(x.shape)), _epsilon(node))
    return [writer.elementwise("add", [writer.elementwise("mul", [made, scale]), bias])]


def _layer(graph: Graph, node: Node) -> list[View]:
    """With the statistics of the last axes; gives the mean and 1 / sqrt(variance + epsilon) too where asked."""
    writer, x = graph.writer, graph.view(node.inputs[0])
    axis = graph.call(node).number("axis", -1) % len(x.shape)
    made, mean, inverse = _normal(writer, x, range(axis, len(x.shape)), _epsilon(node))
    made = writer.elementwise("mul", [made, graph.view(node.inputs[1])])
    if graph.call(node).has(2):
        made = writer.elementwise("add", [made, graph.view(node.inputs[2])])
    return [made, mean, inverse][: len(node.outputs)]


def _normal(writer: Writer, x: View, over: Sequence[int], epsilon: float) -> tuple[View, View, View]:
    """Values less their mean by their deviation, the mean, and the deviation's inverse."""
    share = 1 / math.prod(x.shape[axis] for axis in over)
    shape = [1 if axis in over else size for axis, size in enumerate(x.shape)]
    mean = writer.reshape(writer.reduce("sum", x, list(over), share), shape)
    apart = writer.elementwise("sub", [x, mean])
    variance = writer.reshape(writer.reduce("squares", apart, list(over), share), shape)
    inverse = _inverse(writer, variance, epsilon)
    return writer.elementwise("mul", [apart, inverse]), mean, inverse


def _inverse(writer: Writer, variance: View, epsilon: float) -> View:
    number = writer.constant(np.array(epsilon, np.float32))
    return writer.elementwise(
        "reciprocal", [writer.elementwise("sqrt", [writer.elementwise("add", [variance, number])])]
    )


def _by_channel(view: View, x: View) -> View:
    """One number a channel, as wide as a batch (B, C, ...)."""
    made = view.reshaped((1, view.size, *[1] * (len(x.shape) - 2)))
    assert made is not None
    return made


def _epsilon(node: Node) -> float:
    epsilon = node.attributes.get("epsilon", 1e-5)
    assert isinstance(epsilon, float)
    return epsilon


LAYERS: dict[str, Operator] = {
    "AveragePool": _pool,
    "Conv": _conv,
    "GlobalAveragePool": _mean_over_places,
    "MaxPool": _pool,
}
NORMS: dict[str, Operator] = {
    "BatchNormalization": _batch,
    "InstanceNormalization": _instance,
    "LayerNormalization": _layer,
}
