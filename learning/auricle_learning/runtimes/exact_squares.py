"""The sum of the squares of a long vector, made exact for onnxruntime when it loads a step graph.

onnxruntime adds up `ReduceSumSquare` in few running sums of float32, so what clipping compares is off the more the
longer the vector is. In two stages, rows of about the square root of the length and then the rows' sums, it is as exact
as float32 is (`python bench/step_forms.py`, docs/runtimes.md). What the pack holds stays as it is: the nodes are
replaced in a copy of the file's bytes, and the copy is judged like any graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from auricle.checks.onnx_reader import Node

SHORTEST_NUMBERS = 4096
"""Numbers from which a sum is made in two stages; below, float32 in one is exact to 5e-7."""
WIDEST = 8
"""How far a stage may be from the square root of the length, as a factor, before the vector is padded instead."""
_MODEL_GRAPH, _GRAPH_NODE, _GRAPH_TENSOR = 7, 1, 5
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATOR, _NODE_ATTRIBUTE = 1, 2, 4, 5
_LENGTH, _INT64, _INT = 2, 7, 2


def with_exact_squares(data: bytes, nodes: Sequence[Node], shapes: Mapping[str, Sequence[int]]) -> bytes:
    """A graph's file whose long sums of squares are made in two stages; the file itself where it has none.

    Parameters
    ----------
    data
        An ONNX file that `check_graph` has found sound.
    nodes, shapes
        Its nodes in their order, and the shape of every value.
    """
    chosen = {number for number, node in enumerate(nodes) if _is_long(node, shapes)}
    if not chosen:
        return data
    model = bytearray()
    for field, payload, raw in _fields(data):
        model += _field(field, _rewritten(payload, nodes, shapes, chosen)) if field == _MODEL_GRAPH else raw
    return bytes(model)


def _is_long(node: Node, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether it is the sum of all squares of a long vector."""
    given = node.attributes
    whole = not given.get("axes") and not given.get("noop_with_empty_axes") and given.get("keepdims", 1) == 0
    if node.operator != "ReduceSumSquare" or len(node.inputs) != 1 or not whole:
        return False
    return math.prod(shapes[node.inputs[0]]) > SHORTEST_NUMBERS


def _rewritten(graph: bytes, nodes: Sequence[Node], shapes: Mapping[str, Sequence[int]], chosen: set[int]) -> bytes:
    made, number = bytearray(), 0
    for field, _, raw in _fields(graph):
        if field != _GRAPH_NODE:
            made += raw
            continue
        if number in chosen:
            made += _two_stages(nodes[number], math.prod(shapes[nodes[number].inputs[0]]), f"squares/{number}")
        else:
            made += raw
        number += 1
    return bytes(made)


def _two_stages(node: Node, length: int, name: str) -> bytes:
    """Fields of a graph: x x, as rows, the sum of each, and the sum of those; constants come beside the nodes."""
    (x,), (total,) = node.inputs, node.outputs
    rows = _rows(length)
    columns = -(-length // rows)
    constants = {f"{name}/shape": [rows, columns], f"{name}/axis": [1]}
    nodes: list[tuple[str, list[str], str, dict[str, int]]] = [("Mul", [x, x], f"{name}/products", {})]
    if rows * columns != length:
        constants |= {f"{name}/flat": [-1], f"{name}/zeros": [0, rows * columns - length]}
        nodes.append(("Reshape", [f"{name}/products", f"{name}/flat"], f"{name}/line", {}))
        nodes.append(("Pad", [f"{name}/line", f"{name}/zeros"], f"{name}/padded", {}))
    nodes.append(("Reshape", [nodes[-1][2], f"{name}/shape"], f"{name}/rows", {}))
    nodes.append(("ReduceSum", [f"{name}/rows", f"{name}/axis"], f"{name}/sums", {"keepdims": 0}))
    nodes.append(("ReduceSum", [f"{name}/sums"], total, {"keepdims": 0}))
    fields = [_field(_GRAPH_NODE, _node(*each)) for each in nodes]
    return b"".join([*fields, *(_field(_GRAPH_TENSOR, _tensor(key, value)) for key, value in constants.items())])


def _rows(length: int) -> int:
    """A divisor of the length near its square root, else that root itself."""
    root = math.isqrt(length)
    near = (rows for rows in range(root, root // WIDEST, -1) if length % rows == 0)
    return next(near, root)


# -- protocol buffers: https://protobuf.dev/programming-guides/encoding


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Number, content and all bytes of each field of a sound message; a number's content is not read."""
    at = 0
    while at < len(message):
        start = at
        key, at = _number(message, at)
        if key & 7 == _LENGTH:
            size, at = _number(message, at)
            begin, at = at, at + size
        else:
            begin = at
            at = {1: at + 8, 5: at + 4}.get(key & 7) or _number(message, at)[1]
        yield key >> 3, message[begin:at], message[start:at]


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH) + _varint(len(content)) + content


def _node(operator: str, inputs: Sequence[str], output: str, attributes: Mapping[str, int]) -> bytes:
    parts = [_field(_NODE_INPUT, name.encode()) for name in inputs]
    parts += [_field(_NODE_OUTPUT, output.encode()), _field(_NODE_OPERATOR, operator.encode())]
    for name, value in attributes.items():  # name, i, type
        content = _field(1, name.encode()) + _varint(3 << 3) + _varint(value) + _varint(20 << 3) + _varint(_INT)
        parts.append(_field(_NODE_ATTRIBUTE, content))
    return b"".join(parts)


def _tensor(name: str, values: Sequence[int]) -> bytes:
    """A vector of int64: dims, data_type, name, raw_data."""
    head = _varint(1 << 3) + _varint(len(values)) + _varint(2 << 3) + _varint(_INT64)
    return head + _field(8, name.encode()) + _field(9, np.array(values, "<i8").tobytes())
