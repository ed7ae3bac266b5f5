"""Layers that normalise, of evaluation graphs and of training graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from auricle.checks.onnx_reader import Node
from auricle_learning.native.layout import Graph, Operator, require
from auricle_learning.native.program import Writer
from auricle_learning.native.views import View


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


NORMS: dict[str, Operator] = {
    "BatchNormalization": _batch,
    "InstanceNormalization": _instance,
    "LayerNormalization": _layer,
}
