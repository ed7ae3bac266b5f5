"""One node of a graph as a rule of shapes sees it: the shapes of its inputs, its small constants, its attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from auricle.checks.onnx_reader import HIGHEST_RANK, LARGEST_TENSOR, Node

Shape = tuple[int, ...]
Constant = NDArray[Any]


class UnsoundNodeError(Exception):
    """Why the shape of a node cannot be told; the check turns it into a PackError that names the file."""


class Call:
    """One node with the shapes of its inputs and the values of those that are small constants."""

    def __init__(self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[Constant | None]) -> None:
        self.node = node
        self.shapes = shapes
        self.constants = constants

    def has(self, index: int) -> bool:
        """Whether an optional input is there."""
        return index < len(self.shapes) and self.shapes[index] is not None

    def shape(self, index: int = 0) -> Shape:
        """Shape of an input that must be there."""
        shape = self.shapes[index] if index < len(self.shapes) else None
        if shape is None:
            raise UnsoundNodeError(f"it lacks input {index}")
        return shape

    def constant(self, index: int) -> Constant:
        """Value of an input that decides on a shape."""
        self.shape(index)
        value = self.constants[index]
        if value is None:
            raise UnsoundNodeError(f"its size depends on input {index}, which is not a constant")
        return value

    def numbers(self, index: int) -> list[int]:
        """A constant input as a list of whole numbers."""
        value = self.constant(index)
        if value.dtype.kind not in "iu" or value.ndim > 1:
            raise UnsoundNodeError(f"input {index} is not a list of whole numbers")
        return [int(number) for number in value.reshape(-1)]

    def number(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        value = self.node.attributes.get(name, default)
        if not isinstance(value, int):
            raise UnsoundNodeError(f"its attribute {name} is not a whole number")
        return value

    def list(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An attribute that is a list of whole numbers; refused when it is missing and has no default."""
        value = self.node.attributes.get(name, default)
        if not isinstance(value, (tuple, list)) or not all(isinstance(number, int) for number in value):
            raise UnsoundNodeError(f"it lacks its attribute {name}")
        return list(value)


Rule = Callable[[Call], "list[Shape]"]


def check_size(shape: Sequence[int]) -> Shape:
    """A shape that may be allocated; refused when it is too large, too deep or negative."""
    size = math.prod(shape)
    if any(dim < 0 for dim in shape) or len(shape) > HIGHEST_RANK:
        raise UnsoundNodeError(f"it makes a tensor with a negative dimension or more than {HIGHEST_RANK}")
    if size > LARGEST_TENSOR or any(dim > LARGEST_TENSOR for dim in shape):
        raise UnsoundNodeError(f"it makes a tensor of {size} numbers; at most {LARGEST_TENSOR} are allowed")
    return tuple(shape)


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise UnsoundNodeError(f"it names axis {axis} of {rank}")
    return axis % rank


def broadcast(*shapes: Shape) -> Shape:
    """The common shape of several."""
    rank = max(len(shape) for shape in shapes)
    common = []
    for dims in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wide = {dim for dim in dims if dim != 1}
        if len(wide) > 1:
            raise UnsoundNodeError(f"its inputs of shapes {shapes[0]} and {shapes[1]} do not fit each other")
        common.append(wide.pop() if wide else 1)
    return tuple(common)


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise UnsoundNodeError(reason)
