"""Activations that a graph has as one operator, written as the elementwise instructions that there are."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from auricle.checks.onnx_reader import Node
from auricle_learning.native.layout import Graph, Operator, require
from auricle_learning.native.views import View


class Activation:
    """The instructions of one node, whose last one makes the value where it is wanted."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph, self._node = graph, node
        self._place = graph.places.get(node.outputs[0])
        self.x = graph.view(node.inputs[0])

    def attribute(self, name: str, default: float) -> float:
        """A number of the node."""
        value = self._node.attributes.get(name, default)
        assert isinstance(value, float)
        return value

    def given(self, index: int, default: float) -> View:
        """An input that is one number, `default` where the node has none."""
        if not self._graph.call(self._node).has(index):
            return self.number(default)
        view = self._graph.view(self._node.inputs[index])
        require(view.size == 1, "its bounds are more than one number")
        return self._graph.writer.reshape(view, ())

    def number(self, value: float) -> View:
        """A constant ()."""
        return self._graph.writer.constant(np.array(value, np.float32))

    def make(self, kind: str, *inputs: View | float, last: bool = False) -> View:
        """Kind(inputs), each a value or a number; the last one of the node goes to its place."""
        views = [value if isinstance(value, View) else self.number(value) for value in inputs]
        return self._graph.writer.elementwise(kind, views, self._place if last else None)

    def below_zero(self, other: View, last: bool = True) -> View:
        """The input, but `other` where it is below 0."""
        return self.make("where", self.make("less", self.x, 0.0), other, self.x, last=last)

    def ramp(self, slope: float, at_zero: float, last: bool = False) -> View:
        """Slope x + at_zero, held between 0 and 1."""
        line = self.make("add", self.make("mul", self.x, slope), at_zero)
        return self.make("min", self.make("max", line, 0.0), 1.0, last=last)

    def softplus(self, last: bool = False) -> View:
        """Log(1 + e^x), as max(x, 0) + log(1 + e^-|x|), which no large x makes infinite."""
        small = self.make("exp", self.make("neg", self.make("abs", self.x)))
        return self.make(
            "add", self.make("max", self.x, 0.0), self.make("log", self.make("add", small, 1.0)), last=last
        )

    def exponential(self, scale: float, width: float = 1.0) -> View:
        """Scale (e^(x / width) - 1)."""
        power = self.x if width == 1.0 else self.make("mul", self.x, 1 / width)
        return self.make("mul", self.make("sub", self.make("exp", power), 1.0), scale)


def _clip(it: Activation) -> View:
    return it.make("min", it.make("max", it.x, it.given(1, -math.inf)), it.given(2, math.inf), last=True)


def _prelu(graph: Graph, node: Node) -> list[View]:
    it = Activation(graph, node)
    return [it.below_zero(it.make("mul", it.x, graph.view(node.inputs[1]).broadcast(it.x.shape)))]


def _selu(it: Activation) -> View:
    made = it.below_zero(it.exponential(it.attribute("alpha", 1.6732632)), last=False)
    return it.make("mul", made, it.attribute("gamma", 1.0507010), last=True)


def _celu(it: Activation) -> View:
    alpha = it.attribute("alpha", 1.0)
    return it.below_zero(it.exponential(alpha, alpha))


FORMULAS: dict[str, Callable[[Activation], View]] = {
    "Celu": _celu,
    "Clip": _clip,
    "Elu": lambda it: it.below_zero(it.exponential(it.attribute("alpha", 1.0))),
    "HardSigmoid": lambda it: it.ramp(it.attribute("alpha", 0.2), it.attribute("beta", 0.5), last=True),
    "HardSwish": lambda it: it.make("mul", it.x, it.ramp(1 / 6, 0.5), last=True),
    "LeakyRelu": lambda it: it.below_zero(it.make("mul", it.x, it.attribute("alpha", 0.01))),
    "Mish": lambda it: it.make("mul", it.x, it.make("tanh", it.softplus()), last=True),
    "Selu": _selu,
    "Softplus": lambda it: it.softplus(last=True),
}


def _operator(formula: Callable[[Activation], View]) -> Operator:
    return lambda graph, node: [formula(Activation(graph, node))]


ACTIVATIONS: dict[str, Operator] = {
    **{name: _operator(formula) for name, formula in FORMULAS.items()},
    "PRelu": _prelu,
}
