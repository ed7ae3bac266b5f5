"""The ONNX operators that have a translation."""

from __future__ import annotations

from collections.abc import Callable

from auricle.errors import PackError, nearest
from auricle_export.tflite.arithmetic import ARITHMETIC
from auricle_export.tflite.layers import LAYERS
from auricle_export.tflite.moves import MOVES
from auricle_export.tflite.recurrent import RECURRENT
from auricle_export.tflite.trace import describe
from auricle_export.tflite.translation import Node, Translation

OPERATORS: dict[str, Callable[[Translation, Node], None]] = {**ARITHMETIC, **MOVES, **LAYERS, **RECURRENT}


def translate(t: Translation) -> None:
    """Write every node of the traced graph.

    Raises
    ------
    PackError
        An operator, or a variant of one, has no translation; the sentence names its node.
    """
    for proto in t.trace.nodes:
        if proto.op_type not in OPERATORS or proto.domain not in ("", "ai.onnx"):
            raise PackError(
                f"The operator {describe(proto)} has no translation to TensorFlow Lite: "
                f"{nearest(proto.op_type, OPERATORS)}"
            )
        OPERATORS[proto.op_type](t, Node(proto))
