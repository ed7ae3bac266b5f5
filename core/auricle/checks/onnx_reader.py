"""An ONNX file as plain values, read without the `onnx` package: a board has only onnxruntime.

Nothing is copied or allocated by a size that the file claims: a tensor's numbers stay where they are until its dims
were compared with the bytes that are there.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auricle.checks.onnx_fields import (
    ATTRIBUTE,
    ATTRIBUTE_FIELDS,
    DIM,
    DTYPES,
    GRAPH,
    MODEL,
    NODE,
    OPSET,
    SEQUENCE,
    SHAPE,
    TENSOR,
    TENSOR_TYPE,
    TYPE,
    VALUE,
)
from auricle.checks.onnx_wire import Span, Wire, to_signed

HIGHEST_RANK = 8
MOST_NODES = 50_000
LARGEST_TENSOR = 1 << 26
"""Most numbers of one tensor."""


class Tensor(NamedTuple):
    """A constant."""

    name: str
    array: NDArray[Any]


Attributes = dict[str, Any]
"""Of an operator, by name: numbers, bytes, tuples of them, or a Tensor."""


class Node(NamedTuple):
    """One operator."""

    operator: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes


class Value(NamedTuple):
    """An input, an output or a note on a value between: dims are numbers, names, or None where nothing is said."""

    name: str
    element: int
    dims: tuple[int | str | None, ...] | None


class Model(NamedTuple):
    """What an ONNX file says."""

    ir: int
    opsets: dict[str, int]
    nodes: list[Node]
    initialisers: list[Tensor]
    inputs: list[Value]
    outputs: list[Value]
    values: list[Value]


def printable(name: str) -> str:
    """A name of a file that nobody vouches for, fit for a terminal."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


def read_model(data: bytes, where: str) -> Model:
    """Read an ONNX file.

    Parameters
    ----------
    data
        The file's bytes.
    where
        What it is, e.g. `The graph graphs/lite.onnx`.

    Raises
    ------
    PackError
        It is cut short, not ONNX, holds functions, subgraphs, external or sparse data, a tensor whose dims are not the
        data that is there or that is too large, or more than the limits of this module allow.
    """
    return _ModelReader(Wire(data, where)).model((0, len(data)))


class _ModelReader:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.refuse = wire.refuse

    def model(self, span: Span) -> Model:
        fields = self.wire.message(span, MODEL, "model")
        if 25 in fields:
            self.refuse("it defines functions of its own; only operators of the ONNX standard are allowed")
        if 7 not in fields or 1 not in fields:
            self.refuse("it is not an ONNX model: it has no graph or no IR version")
        opsets: dict[str, int] = {}
        for part in fields.get(8, []):
            opset = self.wire.message(part, OPSET, "operator set")
            domain = self._text(opset, 1, "domain")
            if domain in opsets:
                self.refuse(f"it imports the operator set {printable(domain)} twice")
            opsets[domain] = to_signed(opset.get(2, [0])[0])
        return self._graph(fields[7][0], to_signed(fields[1][0]), opsets)

    def _graph(self, span: Span, ir: int, opsets: dict[str, int]) -> Model:
        fields = self.wire.message(span, GRAPH, "graph")
        if 15 in fields:
            self.refuse("it has sparse initialisers")
        if len(fields.get(1, [])) > MOST_NODES:
            self.refuse(f"it has more than {MOST_NODES} nodes")
        return Model(
            ir,
            opsets,
            [self._node(part) for part in fields.get(1, [])],
            [self._tensor(part) for part in fields.get(5, [])],
            *([self._value(part) for part in fields.get(number, [])] for number in (11, 12, 13)),
        )

    def _node(self, span: Span) -> Node:
        fields = self.wire.message(span, NODE, "node")
        operator = self._text(fields, 4, "operator")
        if self._text(fields, 8, "overload"):
            self.refuse(f"a node {printable(operator)} calls a function")
        attributes: Attributes = {}
        for part in fields.get(5, []):
            name, value = self._attribute(part, operator)
            if name in attributes:
                self.refuse(f"a node {printable(operator)} has the attribute {printable(name)} twice")
            attributes[name] = value
        return Node(
            operator,
            self._text(fields, 7, "domain"),
            self._text(fields, 3, "name"),
            tuple([self.wire.text(part, "name") for part in fields.get(1, [])]),
            tuple([self.wire.text(part, "name") for part in fields.get(2, [])]),
            attributes,
        )

    def _attribute(self, span: Span, operator: str) -> tuple[str, Any]:
        fields = self.wire.message(span, ATTRIBUTE, "attribute")
        name, kind = self._text(fields, 1, "name"), fields.get(20, [0])[0]
        field = ATTRIBUTE_FIELDS.get(kind)
        if 6 in fields or 11 in fields:
            self.refuse(f"a node {printable(operator)} holds a graph inside the graph")
        if field is None or set(fields) - {1, 20, field}:
            self.refuse(f"the attribute {printable(name)} of a node {printable(operator)} has no type or two values")
        values = fields.get(field, [])
        if kind in (1, 6):
            numbers = self._numbers(values, np.dtype("<f4"))
            self._finite(numbers, f"the attribute {printable(name)} of a node {printable(operator)}")
            return name, float(numbers.sum()) if kind == 1 else tuple(numbers.tolist())
        if kind in (2, 7):
            whole = [to_signed(value) for value in values]
            return name, sum(whole) if kind == 2 else tuple(whole)
        if kind in (3, 8):
            texts = [self.wire.join([value]) for value in values]
            return name, b"".join(texts) if kind == 3 else tuple(texts)
        tensors = [self._tensor(value) for value in values]
        if kind == 4 and not tensors:
            self.refuse(f"the attribute {printable(name)} of a node {printable(operator)} has no tensor")
        return name, tensors[0] if kind == 4 else tuple(tensors)

    def _tensor(self, span: Span) -> Tensor:
        fields = self.wire.message(span, TENSOR, "tensor")
        name = self._text(fields, 8, "name")
        what = f"the tensor {printable(name)}"
        if 13 in fields or fields.get(14, [0])[0] != 0:
            self.refuse(f"{what} keeps its numbers outside the file")
        dtype = DTYPES.get(fields.get(2, [0])[0])
        if dtype is None:
            self.refuse(f"{what} has an element type that a pack's graph may not have")
        dims = tuple([to_signed(dim) for dim in fields.get(1, [])])
        if len(dims) > HIGHEST_RANK or any(dim < 0 for dim in dims):
            self.refuse(f"{what} has more than {HIGHEST_RANK} dimensions or a negative one")
        size = math.prod(dims)
        if size > LARGEST_TENSOR:
            self.refuse(f"{what} claims {size} numbers; at most {LARGEST_TENSOR} are allowed")
        numbers = self._content(fields, dtype, what, size)
        self._finite(numbers, what)
        return Tensor(name, numbers.reshape(dims))

    def _content(self, fields: dict[int, list[Any]], dtype: np.dtype[Any], what: str, size: int) -> NDArray[Any]:
        """The numbers of a tensor, exactly `size` of them, from the one field that its type allows beside raw data."""
        held = [number for number in (4, 5, 7, 9, 10, 11) if number in fields]
        typed = {"<f4": 4, "<f8": 10, "<i8": 7, "<u4": 11, "<u8": 11}.get(dtype.str, 5)
        if len(held) > 1 or (held and held[0] not in (9, typed)):
            self.refuse(f"{what} holds its numbers twice or in a field of another type")
        if not held or held[0] in (4, 9, 10):
            spans = fields[held[0]] if held else []
            there = sum(end - start for start, end in spans)
            if there != size * dtype.itemsize:
                self.refuse(f"{what} claims {size} numbers but holds {there} bytes")
            if len(spans) == 1:
                return np.frombuffer(self.wire.data, dtype, size, spans[0][0])
            return self._numbers(spans, dtype)
        values = [to_signed(value) for value in fields[held[0]]] if dtype.kind != "u" else fields[held[0]]
        if len(values) != size:
            self.refuse(f"{what} claims {size} numbers but holds {len(values)}")
        stored = np.dtype("<u2") if dtype.str == "<f2" else dtype
        highest = 1 if dtype.kind == "b" else np.iinfo(stored).max
        lowest = 0 if dtype.kind == "b" else np.iinfo(stored).min
        if any(not lowest <= value <= highest for value in values):
            self.refuse(f"{what} holds a number that its element type has not")
        return np.array(values, stored).view(dtype)

    def _numbers(self, spans: list[Span], dtype: np.dtype[Any]) -> NDArray[Any]:
        joined = self.wire.join(spans)
        if len(joined) % dtype.itemsize:
            self.refuse("a list of numbers in it is cut short")
        return np.frombuffer(joined, dtype)

    def _finite(self, numbers: NDArray[Any], what: str) -> None:
        """A single infinity is a limit and allowed; anything else that is not finite would poison the training."""
        if numbers.dtype.kind == "b" and numbers.size and numbers.view("u1").max() > 1:
            self.refuse(f"{what} holds a truth value that is neither 0 nor 1")
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            if np.isnan(numbers).any():
                self.refuse(f"{what} holds NaN")
            if numbers.size > 1:
                self.refuse(f"{what} holds infinite numbers")

    def _value(self, span: Span) -> Value:
        fields = self.wire.message(span, VALUE, "value")
        name = self._text(fields, 1, "name")
        kind = self.wire.message(fields[2][0], TYPE, "type") if 2 in fields else {}
        if 4 in kind and 1 not in kind:
            return Value(name, SEQUENCE, None)
        if 1 not in kind or 4 in kind:
            self.refuse(f"{printable(name)} is neither a tensor nor a list of tensors")
        tensor = self.wire.message(kind[1][0], TENSOR_TYPE, "tensor type")
        element = tensor.get(1, [0])[0]
        if element not in DTYPES:
            self.refuse(f"{printable(name)} has an element type that a pack's graph may not have")
        return Value(name, element, self._shape(tensor[2][0], name) if 2 in tensor else None)

    def _shape(self, span: Span, name: str) -> tuple[int | str | None, ...]:
        dims: list[int | str | None] = []
        for part in self.wire.message(span, SHAPE, "shape").get(1, []):
            fields = self.wire.message(part, DIM, "dimension")
            if len(fields) > 1:
                self.refuse(f"a dimension of {printable(name)} has a number and a name")
            dims.append(to_signed(fields[1][0]) if 1 in fields else self._text(fields, 2, "dimension") or None)
        known = [dim for dim in dims if isinstance(dim, int)]
        if len(dims) > HIGHEST_RANK or any(dim < 0 for dim in known) or math.prod(known) > LARGEST_TENSOR:
            self.refuse(f"{printable(name)} claims a shape of more than {LARGEST_TENSOR} numbers")
        return tuple(dims)

    def _text(self, fields: dict[int, list[Any]], number: int, what: str) -> str:
        return self.wire.text(fields[number][0], what) if number in fields else ""
