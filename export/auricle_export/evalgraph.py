"""The evaluation graph: log-mels and weights in, logits out, with ONNX's own Conv, MaxPool and GRU, for any batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from auricle.pack import PARTS
from auricle_export.models import FRAMES, MELS, CrnnShape
from auricle_export.stepgraph import IR_VERSION, OPSET, body_tensors

INPUTS = ("x", *(f"model/{part}" for part in PARTS))
OUTPUTS = ("logits",)


class _Builder:
    """Collects nodes and constants; each call returns the name of what it makes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def node(
        self, operator: str, inputs: list[str], *, name: str = "", outputs: int = 1, **attributes: Any
    ) -> list[str]:
        made = [name or f"{operator.lower()}_{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, made, **attributes))
        return made

    def constant(self, values: list[int]) -> str:
        name = "c_" + "_".join(str(v).replace("-", "m") for v in values)
        self.constants[name] = numpy_helper.from_array(np.array(values, np.int64), name)
        return name


def evaluate(shape: CrnnShape) -> onnx.ModelProto:
    """Build the evaluation graph of a CRNN: x (B, T, mels) and the model's three parts to logits (B, labels)."""
    b = _Builder()
    weights = _unpack(b, shape)
    (h,) = b.node("Transpose", ["x"], perm=[0, 2, 1])
    for i in range(len(shape.channels)):
        (h,) = b.node(
            "Conv", [h, weights[f"conv.{i}.weight"], weights[f"conv.{i}.bias"]], kernel_shape=[3], pads=[1, 1]
        )
        (h,) = b.node("Relu", [h])
        (h,) = b.node("MaxPool", [h], kernel_shape=[2], strides=[2])
    (h,) = b.node("Transpose", [h], perm=[2, 0, 1])
    for layer in range(shape.layers):
        h = _gru(b, shape, weights, layer, h)
    b.node("Gemm", [h, "model/head.weight", "model/head.bias"], name="logits", transB=1)
    return _model(b, shape)


def _unpack(b: _Builder, shape: CrnnShape) -> dict[str, str]:
    tensors = body_tensors(shape)
    sizes = [int(np.prod(dims)) for _, dims in tensors]
    pieces = b.node("Split", ["model/body", b.constant(sizes)], outputs=len(sizes), axis=0)
    return {
        name: b.node("Reshape", [piece, b.constant(list(dims))])[0]
        for (name, dims), piece in zip(tensors, pieces, strict=True)
    }


def _gru(b: _Builder, shape: CrnnShape, weights: dict[str, str], layer: int, x: str) -> str:
    """One GRU layer; PyTorch's gate order r, z, n becomes ONNX's z, r, h. Returns the sequence, or the last state."""
    suffixes = [f"l{layer}", f"l{layer}_reverse"][: 2 if shape.bidirectional else 1]

    def reordered(kind: str, suffix: str) -> str:
        r, z, n = b.node("Split", [weights[f"gru.{kind}_{suffix}"]], outputs=3, axis=0, num_outputs=3)
        return b.node("Concat", [z, r, n], axis=0)[0]

    def stacked(names: list[str]) -> str:
        return b.node("Concat", [b.node("Unsqueeze", [n, b.constant([0])])[0] for n in names], axis=0)[0]

    w = stacked([reordered("weight_ih", s) for s in suffixes])
    r = stacked([reordered("weight_hh", s) for s in suffixes])
    bias = stacked([b.node("Concat", [reordered("bias_ih", s), reordered("bias_hh", s)], axis=0)[0] for s in suffixes])
    direction = "bidirectional" if shape.bidirectional else "forward"
    sequence, last = b.node(
        "GRU", [x, w, r, bias], outputs=2, hidden_size=shape.hidden, linear_before_reset=1, direction=direction
    )
    if layer == shape.layers - 1:
        (moved,) = b.node("Transpose", [last], perm=[1, 0, 2])
        return b.node("Flatten", [moved], axis=1)[0]
    (moved,) = b.node("Transpose", [sequence], perm=[0, 2, 1, 3])
    return b.node("Reshape", [moved, b.constant([0, 0, -1])])[0]


def _model(b: _Builder, shape: CrnnShape) -> onnx.ModelProto:
    body = sum(int(np.prod(dims)) for _, dims in body_tensors(shape))
    width = shape.hidden * (2 if shape.bidirectional else 1)
    dims: dict[str, list[str | int | None]] = {
        "x": ["batch", FRAMES, MELS], "model/body": [body], "model/head.weight": ["labels", width],
        "model/head.bias": ["labels"],
    }  # fmt: skip
    graph = helper.make_graph(
        b.nodes,
        "evaluate",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims[name]) for name in INPUTS],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "labels"])],
        initializer=list(b.constants.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="auricle")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return model
