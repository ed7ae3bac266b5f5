"""A graph's bytes are read as onnx reads them, and whatever else comes is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.core import tiny_pack
from tests.core.checked_graph import check_bytes, evaluation
from tests.core.tiny_pack import STEP

from auricle.checks.onnx_reader import read_model
from auricle.checks.onnx_wire import MOST_FIELDS
from auricle.errors import PackError


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        *(("int64", [-(2**63), 2**63 - 1]), ("int32", [-1, 5]), ("int8", [-128, 127]), ("bool", [True, False])),
        *(("float16", [0.5, -2]), ("float32", [0.5, 1e38]), ("float64", [0.5, 1e300])),
        *(("uint64", [0, 2**64 - 1]), ("uint8", [0, 255])),
    ],
)
@pytest.mark.parametrize("raw", [True, False])
def test_constants_of_every_kind_are_read_as_onnx_reads_them(kind: str, numbers: list[Any], raw: bool) -> None:
    array = np.array([numbers], kind)
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = helper.make_tensor("extra", element, array.shape, array.tobytes() if raw else numbers, raw=raw)
    built = evaluation(lambda built: built.graph.initializer.append(tensor))
    read = read_model(built.SerializeToString(), "It").initialisers[-1]
    assert read.array.dtype == array.dtype
    np.testing.assert_array_equal(read.array, numpy_helper.to_array(tensor))


@pytest.mark.parametrize("raw", [True, False])
def test_an_empty_constant_is_read(raw: bool) -> None:
    tensor = helper.make_tensor("extra", TensorProto.FLOAT, [2, 0], b"" if raw else [], raw=raw)
    built = evaluation(lambda built: built.graph.initializer.append(tensor))
    assert read_model(built.SerializeToString(), "It").initialisers[-1].array.shape == (2, 0)


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def _model(*fields: bytes, graph: bytes = b"") -> bytes:
    return b"\x08\x0a" + _field(8, b"\x10\x12") + b"".join(fields) + _field(7, graph)


BYTES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "has no graph"),
    "text": (b"hello, I am a model", "is refused"),
    "cut short": (tiny_pack.evaluation().SerializeToString()[:-3], "cut short"),
    "length of 2 GB": (b"\x08\x0a" + b"\x3a" + _varint(1 << 31), "cut short"),
    "length of 2^63": (b"\x08\x0a" + b"\x3a" + _varint(1 << 63), "cut short"),
    "varint without end": (b"\x08" + b"\xff" * 50, "longer than 64 bits"),
    "varint of 65 bits": (b"\x08" + b"\xff" * 9 + b"\x03", "longer than 64 bits"),
    "group": (b"\x0b\x0c", "field 1 of its model|wire type 3"),
    "unknown group": (b"\x08\x0a\x1b\x1c", "wire type 3"),
    "unknown field": (_model(b"\xf8\x07\x01"), "a field 127 that"),
    "field 0": (_model(b"\x00\x01"), "a field 0 that"),
    "graph twice": (_model(_field(7, b"")), "field 7 twice"),
    "version as text": (_field(1, b"10"), "has the wrong type"),
    "name not UTF-8": (_model(graph=_field(1, _field(4, b"\xff\xfe"))), "not UTF-8"),
    "long name": (_model(graph=_field(1, _field(1, b"a" * 5000))), "longer than 1000 bytes"),
    "nameless tensor": (_model(graph=_field(5, b"\x10\x01\x08\x00")), "without a name"),
    "many nodes": (_model(graph=_field(1, b"") * 60_000), "more than 50000 nodes"),
    "many numbers": (_model(graph=_field(5, _field(7, b"\x01" * 2_000_000))), f"more than {MOST_FIELDS} fields"),
    "many fields": (_model(graph=_field(5, b"\x38\x01" * 1_500_000)), f"more than {MOST_FIELDS} fields"),
    "graphs in graphs": (_model(graph=_field(1, _field(5, _field(6, _field(1, _field(5, b"")))))), "a graph inside"),
    "deep nesting": (_model(graph=b"\x0a\x7f" * 5000), "is refused"),
}


@pytest.mark.parametrize("what", BYTES)
def test_bytes_that_are_no_model_are_refused(what: str) -> None:
    data, sentence = BYTES[what]
    with pytest.raises(PackError, match=sentence):
        check_bytes(data)


WHOLE = tiny_pack.step().SerializeToString()


@settings(max_examples=600, deadline=2000)
@given(place=st.integers(0, len(WHOLE) - 1), insert=st.binary(max_size=6), gone=st.integers(0, 6), cut=st.booleans())
@pytest.mark.slow
def test_a_mutated_graph_passes_or_is_refused(place: int, insert: bytes, gone: int, cut: bool) -> None:
    data = WHOLE[:place] + insert + (b"" if cut else WHOLE[place + gone :])
    try:
        check_bytes(data, STEP)
    except PackError as error:
        assert str(error).startswith("The graph ")
        return
    _refuse_other_reading(data)


def _refuse_other_reading(data: bytes) -> None:
    """What passes, a runtime must read as the check read it."""
    read, parsed = read_model(data, "It"), onnx.load_from_string(data)
    assert [(n.operator, n.domain, n.inputs, n.outputs) for n in read.nodes] == [
        (n.op_type, n.domain, tuple(n.input), tuple(n.output)) for n in parsed.graph.node
    ]
    for node, other in zip(read.nodes, parsed.graph.node, strict=True):
        expected = {a.name: helper.get_attribute_value(a) for a in other.attribute}
        assert {k: list(v) if isinstance(v, tuple) else v for k, v in node.attributes.items()} == expected
    for tensor, held in zip(read.initialisers, parsed.graph.initializer, strict=True):
        np.testing.assert_array_equal(tensor.array, numpy_helper.to_array(held))
    assert read.opsets == {opset.domain: opset.version for opset in parsed.opset_import}
