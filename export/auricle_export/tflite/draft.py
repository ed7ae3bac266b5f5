"""A TensorFlow Lite model while it is being made: tensors, operators, constants and the pack's weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.checks.tflite_weights import is_quantised
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import Tensors

Shape = tuple[int, ...]
Options = tuple[str, dict[str, object]]
_NUMBERS = {"f": ("float32", "<f4"), "i": ("int32", "<i4"), "u": ("int32", "<i4"), "b": ("bool", "|b1")}


@dataclass
class DraftTensor:
    """A tensor: its number type, where its constant lies (0: none), and the pack tensor it is, if it is one."""

    shape: Shape
    dtype: str = "float32"
    buffer: int = 0
    name: str = ""
    channels: int = 0
    """int8 weights: number of scales, one for each first-dimension slice of the pack's tensor."""
    channel_axis: int = 0
    """int8 weights: the axis that the scales belong to."""


@dataclass
class DraftOperator:
    """One operator; -1 among the inputs is an absent optional one."""

    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Options | None = None


@dataclass
class Draft:
    """What the translation writes into.

    Parameters
    ----------
    table
        The model's tensors.
    precision
        `float32` or `int8`: how its weights are kept.
    """

    table: Tensors
    precision: str
    tensors: list[DraftTensor] = field(default_factory=list)
    operators: list[DraftOperator] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=lambda: [b""])
    stored: dict[str, int] = field(default_factory=dict)
    """Buffer of each pack tensor."""
    axes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Order in which it holds the tensor's axes, where that is not the pack's."""

    def __post_init__(self) -> None:
        self._known: dict[tuple[str, Shape, bytes], int] = {}
        self._weights: dict[tuple[str, Shape], int] = {}

    def tensor(self, shape: Sequence[int], name: str = "") -> int:
        """A tensor of that shape that an operator, or the caller of the model, will fill."""
        self.tensors.append(DraftTensor(tuple(int(d) for d in shape), name=name))
        return len(self.tensors) - 1

    def shape(self, tensor: int) -> Shape:
        """Its shape."""
        return self.tensors[tensor].shape

    def constant(self, values: NDArray[Any] | Sequence[int]) -> int:
        """A constant: float32 for numbers, int32 for integers, bool; the same values are kept once."""
        array = np.asarray(values)
        dtype, kind = _NUMBERS[array.dtype.kind]
        array = np.ascontiguousarray(array, kind).reshape(array.shape)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._known:
            self.constants.append(key[2])
            self.tensors.append(DraftTensor(array.shape, dtype, len(self.constants) - 1))
            self._known[key] = len(self.tensors) - 1
        return self._known[key]

    def add(
        self, code: str, inputs: Sequence[int], shape: Sequence[int], options: str = "", /, **fields: object
    ) -> int:
        """An operator with one output of that shape; returns the output."""
        return self.add_many(code, inputs, [shape], options, **fields)[0]

    def add_many(
        self, code: str, inputs: Sequence[int], shapes: Sequence[Sequence[int]], options: str = "", /, **fields: object
    ) -> list[int]:
        """An operator with several outputs; returns them."""
        outputs = [self.tensor(shape) for shape in shapes]
        kept = (options, fields) if options else None
        self.operators.append(DraftOperator(code, tuple(inputs), tuple(outputs), kept))
        return outputs

    def reshape(self, tensor: int, shape: Sequence[int]) -> int:
        """The same numbers in another shape."""
        wanted = tuple(int(d) for d in shape)
        if self.shape(tensor) == wanted:
            return tensor
        return self.add("RESHAPE", [tensor, self.constant(np.array(wanted, np.int32))], wanted)

    def transpose(self, tensor: int, order: Sequence[int]) -> int:
        """Axis j of the result is axis `order[j]`.

        Axes of size 1 are left out and neighbours that stay together are one axis: kernels are fast up to three axes,
        and moving axes of size 1 only costs a reshape.
        """
        shape = self.shape(tensor)
        moved = tuple(shape[axis] for axis in order)
        runs: list[list[int]] = []
        for axis in (axis for axis in order if shape[axis] != 1):
            between = shape[runs[-1][-1] + 1 : axis] if runs and runs[-1][-1] < axis else (0,)
            if runs and math.prod(between) == 1:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        if len(runs) <= 1:
            return self.reshape(tensor, moved)
        before = sorted(runs)
        places = np.array([before.index(run) for run in runs], np.int32)
        sizes = [math.prod(shape[axis] for axis in run) for run in before]
        packed = self.reshape(tensor, sizes)
        flipped = self.add("TRANSPOSE", [packed, self.constant(places)], [sizes[place] for place in places])
        return self.reshape(flipped, moved)

    def weight(self, spec: TensorSpec, shape: Shape) -> int:
        """A pack tensor in its own order, seen as that shape; int8 ones are made float32 again first."""
        key = (spec.name, shape)
        if key not in self._weights:
            axes = self.axes.get(spec.name)
            if axes is not None:
                held = self._weights[spec.name, ()]
                plain = self.reshape(held, tuple(spec.shape[axis] for axis in axes))
                back = self.transpose(plain, [axes.index(axis) for axis in range(len(axes))])
                self._weights[key] = self.reshape(back, shape)
            else:
                self._weights[key] = self._in_file_order(spec, shape, 0)
        return self._weights[key]

    def permuted(self, spec: TensorSpec, axes: tuple[int, ...], shape: Shape, channel_axis: int) -> int | None:
        """A pack tensor with its axes in that order, seen as that shape, at no cost; None if it lies otherwise already.

        `channel_axis` is the axis of `shape` that is the tensor's first.
        """
        if spec.name not in self.stored:
            self.axes[spec.name] = axes
            self._weights[spec.name, ()] = self._in_file_order(spec, shape, channel_axis)
        elif self.axes.get(spec.name) != axes:
            return None
        return self.reshape(self._weights[spec.name, ()], shape)

    def _in_file_order(self, spec: TensorSpec, shape: Shape, channel_axis: int) -> int:
        """The tensor in the order in which the file holds it."""
        if not (self.precision == "int8" and is_quantised(spec)):
            return self._store(spec, shape)
        first = next((t for (name, _), t in self._weights.items() if name == spec.name), None)
        if first is not None:
            return self.reshape(first, shape)
        fits = shape[channel_axis] == spec.shape[0]
        packed = self._store(spec, shape if fits else spec.shape, "int8", spec.shape[0], channel_axis)
        return self.reshape(self.add("DEQUANTIZE", [packed], self.shape(packed)), shape)

    def _store(
        self, spec: TensorSpec, shape: Shape, dtype: str = "float32", channels: int = 0, channel_axis: int = 0
    ) -> int:
        if spec.name not in self.stored:
            self.constants.append(bytes(spec.size * (1 if dtype == "int8" else 4)))
            self.stored[spec.name] = len(self.constants) - 1
        self.tensors.append(DraftTensor(shape, dtype, self.stored[spec.name], spec.name, channels, channel_axis))
        return len(self.tensors) - 1

    def pruned(self, outputs: Sequence[int]) -> list[DraftOperator]:
        """The operators that the outputs need, in order."""
        needed, kept = set(outputs), []
        for operator in reversed(self.operators):
            if needed.intersection(operator.outputs):
                needed.update(operator.inputs)
                kept.append(operator)
        return kept[::-1]


def size(shape: Shape) -> int:
    """Numbers in a tensor of that shape."""
    return math.prod(shape)
