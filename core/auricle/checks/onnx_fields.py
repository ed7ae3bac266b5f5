"""Which fields the messages of an ONNX file may have, and what each holds.

Field numbers are those of `onnx.proto3` at IR version 10 (https://github.com/onnx/onnx/blob/v1.17.0/onnx/onnx.proto).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from auricle.checks.onnx_wire import Spec

MODEL: Spec = {1: "i", 2: "-", 3: "-", 4: "-", 5: "-", 6: "-", 7: "b", 8: "B", 14: "-", 20: "x", 25: "B"}
OPSET: Spec = {1: "b", 2: "i"}
GRAPH: Spec = {1: "B", 2: "-", 5: "B", 10: "-", 11: "B", 12: "B", 13: "B", 14: "x", 15: "B", 16: "-"}
NODE: Spec = {1: "B", 2: "B", 3: "b", 4: "b", 5: "B", 6: "-", 7: "b", 8: "b", 9: "-"}
ATTRIBUTE: Spec = {
    1: "b",
    2: "f",
    3: "i",
    4: "b",
    5: "b",
    6: "b",
    7: "F",
    8: "I",
    9: "B",
    10: "B",
    11: "B",
    13: "-",
    14: "x",
    15: "x",
    20: "i",
    21: "x",
    22: "x",
    23: "x",
}
TENSOR: Spec = {
    1: "I",
    2: "i",
    3: "x",
    4: "F",
    5: "I",
    6: "x",
    7: "I",
    8: "b",
    9: "b",
    10: "D",
    11: "I",
    12: "-",
    13: "B",
    14: "i",
    16: "-",
}
VALUE: Spec = {1: "b", 2: "b", 3: "-", 4: "-"}
TYPE: Spec = {1: "b", 4: "b", 5: "x", 6: "-", 8: "x", 9: "x"}
TENSOR_TYPE: Spec = {1: "i", 2: "b"}
SHAPE: Spec = {1: "B"}
DIM: Spec = {1: "i", 2: "b", 3: "-"}

FLOAT = 1
SEQUENCE = 0
"""Stands for the element type of a list of tensors, which only graphs of onnxruntime-training have."""
DTYPES: dict[int, np.dtype[Any]] = {
    number: np.dtype(name)
    for number, name in (
        (1, "<f4"),
        (2, "u1"),
        (3, "i1"),
        (4, "<u2"),
        (5, "<i2"),
        (6, "<i4"),
        (7, "<i8"),
        (9, "?"),
        (10, "<f2"),
        (11, "<f8"),
        (12, "<u4"),
        (13, "<u8"),
    )
}
"""Element types that a pack's graph may use, by ONNX's number."""

ATTRIBUTE_FIELDS = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10, 10: 11}
"""The field that holds the value of an attribute of each type."""
