"""A node of an ONNX graph, and the versions that graphs are written in; without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import helper

OPSET = 18
IR_VERSION = 10
Attribute = int | float | str | Sequence[int] | Sequence[float] | Sequence[bytes]
"""What a node's attribute may be."""


def make_node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Attribute) -> onnx.NodeProto:
    """A node with its attributes."""
    given: dict[str, Any] = {**attributes}
    return helper.make_node(operator, inputs, outputs, **given)
