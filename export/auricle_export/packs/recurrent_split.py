"""Recurrent ONNX layers as onnxruntime-training's gradient kernels want them: one direction, every input given.

A bidirectional layer becomes two forward ones, the second over the reversed sequence; a missing initial state becomes
zeros, since the gradient builder counts inputs by position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from auricle_export.compiler.builder import Attribute, make_node

STATES = {"GRU": ("initial_h",), "LSTM": ("initial_h", "initial_c")}
"""Initial states, which follow X, W, R, B and the sequence lengths."""
FIRST_STATE = 5
TO_FRONT = np.iinfo(np.int64).min + 1
"""Where a slice that runs backwards ends: before the first element."""


class _Writer:
    """Collects nodes and constants under names that nothing else has."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph, self.nodes, self._count = graph, list[onnx.NodeProto](), 0

    def name(self) -> str:
        self._count += 1
        return f"recurrent/{self._count}"

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        name = self.name()
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def node(
        self, operator: str, inputs: list[str], outputs: list[str] | None = None, **attributes: Attribute
    ) -> list[str]:
        made = outputs or [self.name()]
        self.nodes.append(make_node(operator, inputs, made, **attributes))
        return made

    def sliced(self, source: str, start: int, stop: int, step: int = 1) -> str:
        """Elements `start` to `stop` of the first dimension."""
        numbers = [self.constant(np.array([value], np.int64)) for value in (start, stop, 0, step)]
        return self.node("Slice", [source, *numbers])[0]

    def reversed(self, source: str) -> str:
        """The first dimension from its end to its beginning."""
        return self.sliced(source, -1, TO_FRONT, -1)


def one_direction_each(model: onnx.ModelProto, batch: int) -> None:
    """Rewrite a model's GRU and LSTM layers in place.

    Parameters
    ----------
    model
        Of which batch its sequences are.
    batch
        Samples, for initial states that are not given.
    """
    writer = _Writer(model.graph)
    for node in model.graph.node:
        if node.op_type in STATES:
            _rewrite(writer, node, batch)
        else:
            writer.nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(writer.nodes)


def _rewrite(writer: _Writer, node: onnx.NodeProto, batch: int) -> None:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    direction = attributes.pop("direction", b"forward")
    activations = attributes.pop("activations", [])
    two = direction == b"bidirectional"
    inputs = [*node.input, *[""] * (FIRST_STATE - len(node.input))][:FIRST_STATE]
    states = list(node.input[FIRST_STATE : FIRST_STATE + len(STATES[node.op_type])])
    states += [""] * (len(STATES[node.op_type]) - len(states))
    zeros = np.zeros((2 if two else 1, batch, attributes["hidden_size"]), np.float32)
    states = [state or writer.constant(zeros) for state in states]
    outputs = [*node.output, *[""] * (1 + len(states) - len(node.output))]
    if direction == b"forward":
        named = [output or writer.name() for output in outputs]
        writer.node(node.op_type, [*inputs, *states], named, **attributes, **_as_attribute(activations))
        return
    halves = []
    for reverse in (False, True) if two else (True,):
        x = writer.reversed(inputs[0]) if reverse else inputs[0]
        side = int(reverse) if two else 0
        own = [writer.sliced(name, side, side + 1) if two and name else name for name in (*inputs[1:4], *states)]
        given = [x, *own[:3], inputs[4], *own[3:]]
        share = len(activations) // (2 if two else 1)
        own_activations = _as_attribute(activations[side * share : (side + 1) * share])
        sequence, *last = writer.node(
            node.op_type, given, [writer.name() for _ in outputs], **attributes, **own_activations
        )
        halves.append([writer.reversed(sequence) if reverse else sequence, *last])
    for i, output in enumerate(outputs):
        if output:
            writer.node("Concat", [half[i] for half in halves], [output], axis=1 if i == 0 else 0)


def _as_attribute(activations: list[bytes]) -> dict[str, list[bytes]]:
    return {"activations": activations} if activations else {}
