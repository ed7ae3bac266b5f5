"""Values of a graph under translation, and what every operator's translation uses.

A value that depends on the input keeps a lazy order of axes: a transpose only changes which logical axis a physical
one holds, and an operator asks for the order it wants. So ONNX's channels-first layers and TensorFlow Lite's
channels-last ones meet without moving anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import onnx
from numpy.typing import NDArray

from auricle.errors import PackError
from auricle_export.tflite.draft import Draft, DraftOperator, Shape
from auricle_export.tflite.places import weights
from auricle_export.tflite.trace import OUTPUT, Constant, Places, Trace, describe

RELU = 1
FUSED = "FusedActivationFunction"
MOST_AXES = 6


T = TypeVar("T")


@dataclass(frozen=True)
class Live:
    """A value that depends on the input: its tensor's axis j holds the value's axis `order[j]`."""

    tensor: int
    shape: Shape
    order: tuple[int, ...]


Value = Constant | Places | Live


class Node:
    """One ONNX node, read."""

    def __init__(self, proto: onnx.NodeProto) -> None:
        self.proto = proto
        self.operator: str = proto.op_type
        self.inputs: tuple[str, ...] = tuple(proto.input)
        self.outputs: tuple[str, ...] = tuple(proto.output)
        self._attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}

    def get(self, name: str, default: T) -> T:
        """An attribute or its default; strings as str."""
        value: Any = self._attributes.get(name, default)
        return cast("T", value.decode() if isinstance(value, bytes) else value)

    def has(self, position: int) -> bool:
        """Whether the node has that input."""
        return len(self.inputs) > position and self.inputs[position] != ""

    def refuse(self, why: str) -> PackError:
        """The error that names this node."""
        return PackError(f"The operator {describe(self.proto)} has no translation to TensorFlow Lite: {why}.")


class Translation:
    """The state of one translation: what is known of each value, and the draft that grows."""

    def __init__(
        self, traced: Trace, draft: Draft, inputs: Mapping[str, Live], outputs: Sequence[str] = (OUTPUT,)
    ) -> None:
        self.trace, self.draft = traced, draft
        self._values: dict[str, Value] = {**traced.fixed, **inputs}
        self.uses = Counter([*outputs, *(name for node in traced.nodes for name in node.input)])

    def value(self, name: str) -> Value:
        """What is known of a value."""
        return self._values[name]

    def shape(self, name: str) -> Shape:
        """Its shape."""
        return self.trace.shapes[name]

    def numbers(self, node: Node, position: int) -> NDArray[Any]:
        """An input that must be constant."""
        value = self._values[node.inputs[position]]
        if not isinstance(value, Constant):
            raise node.refuse(f"its input {node.inputs[position]} must be constant")
        return value.array

    def live(self, node: Node, position: int = 0) -> Live:
        """An input as a tensor: a constant becomes one when it is first asked for."""
        name = node.inputs[position]
        value = self._values[name]
        return value if isinstance(value, Live) else self.as_live(self.realise(value), self.shape(name))

    def as_live(self, tensor: int, shape: Shape, order: Sequence[int] | None = None) -> Live:
        """A tensor as a value, its axes in order unless said otherwise."""
        return Live(tensor, shape, tuple(order) if order is not None else tuple(range(len(shape))))

    def set(self, name: str, tensor: int, order: Sequence[int] | None = None) -> None:
        """Say which tensor a value is."""
        self._values[name] = self.as_live(tensor, self.shape(name), order)

    def realise(self, value: Value, order: Sequence[int] | None = None) -> int:
        """A tensor whose axis j is the value's axis `order[j]`; without, its axes in order."""
        if isinstance(value, Constant):
            array = value.array.astype(np.float32)
            return self.draft.constant(array.transpose(order) if order is not None else array)
        if isinstance(value, Places):
            return weights(self.draft, value.index.transpose(order) if order is not None else value.index)
        wanted = list(order) if order is not None else list(range(len(value.shape)))
        return self.draft.transpose(value.tensor, [value.order.index(axis) for axis in wanted])

    def aligned(self, name: str, order: Sequence[int]) -> int:
        """A tensor that broadcasts against values of that order of axes, as ONNX broadcasts."""
        value, rank = self._values[name], len(order)
        full = (1,) * (rank - len(self.shape(name))) + self.shape(name)
        if isinstance(value, Live):
            if len(value.shape) == rank:
                return self.realise(value, order)
            return self.draft.transpose(self.draft.reshape(self.realise(value), full), order)
        moved = (value.array if isinstance(value, Constant) else value.index).reshape(full).transpose(order)
        short = moved.reshape(_trim(moved.shape))
        return self.realise(Constant(short) if isinstance(value, Constant) else Places(short))

    def aligned_whole(self, name: str, order: Sequence[int], shape: Shape | None = None) -> int:
        """A tensor of the value's own size, or of a shape that it is broadcast to, in that order of axes."""
        value = self._values[name]
        own = self.shape(name)
        tensor = self.realise(value, order) if len(own) == len(order) else self.aligned(name, order)
        if shape is None:
            return tensor
        wanted = self.physical(shape, order)
        if self.draft.shape(tensor) == wanted:
            return tensor
        target = self.draft.constant(np.array(wanted, np.int32))
        return self.draft.add("BROADCAST_TO", [tensor, target], wanted, "BroadcastToOptions")

    def order_for(self, names: Sequence[str], rank: int) -> tuple[int, ...]:
        """The order of axes of the first of these values that has one of that rank, so that it need not move."""
        for name in names:
            value = self._values.get(name)
            if isinstance(value, Live) and len(value.shape) == rank:
                return value.order
        return tuple(range(rank))

    def physical(self, shape: Shape, order: Sequence[int]) -> Shape:
        """A shape with its axes in that order."""
        return tuple(shape[axis] for axis in order)

    def fuse_relu(self, name: str) -> bool:
        """Let the operator that makes a value apply ReLU too, if nothing else reads it."""
        value = self._values[name]
        if not isinstance(value, Live) or self.uses[name] != 1:
            return False
        maker = self._maker(value.tensor)
        while maker is not None and maker.code == "RESHAPE":
            maker = self._maker(maker.inputs[0])
        if maker is None or maker.options is None or maker.options[1].get(FUSED) != 0:
            return False
        maker.options[1][FUSED] = RELU
        return True

    def _maker(self, tensor: int) -> DraftOperator | None:
        return next((o for o in reversed(self.draft.operators) if tensor in o.outputs), None)


def _trim(shape: Shape) -> Shape:
    """A shape without its leading ones."""
    first = next((i for i, d in enumerate(shape) if d != 1), len(shape) - 1)
    return shape[max(first, 0) :] or (1,)
