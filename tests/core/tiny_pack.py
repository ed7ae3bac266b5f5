"""A whole pack small enough to take apart: one model of 15 weights, its evaluation graph and its step graph."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from auricle.packs.frontend import Frontend
from auricle.packs.graph_interface import PARTS, Graph, step_inputs, step_outputs
from auricle.packs.manifest import FileEntry, Manifest, Start, Task
from auricle.packs.pack import FORMAT, Pack
from auricle.packs.start import start_file
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import TensorTable

FRAMES, MELS, BATCH = 5, 3, 4
TABLE = (
    TensorSpec("mix.weight", (MELS, 2), "mix", 0.5),
    TensorSpec("head.weight", (3, 2), "head", 0.5),
    TensorSpec("head.bias", (3,), "head", 0.5),
)
TASK = Task(("yes", "no", "up"), frames=FRAMES, frontend=Frontend(mels=MELS))
EVALUATE, STEP, WEIGHTS = "graphs/lite.evaluate.onnx", "graphs/lite.supervised.sgd.onnx", "weights/lite.safetensors"
SHAPES: dict[str, list[Any]] = {"body": [6], "head.weight": ["labels", 2], "head.bias": ["labels"]}
MODEL = [(f"model/{part}", SHAPES[part]) for part in PARTS]
MOMENTUM = [(f"model.momentum/{part}", SHAPES[part]) for part in PARTS]


def value(name: str, shape: list[Any] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """An input or output of a graph."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[tuple[str, list[Any]]],
    outputs: list[tuple[str, list[Any]]],
    constants: Mapping[str, Any] | None = None,
    **changes: Any,
) -> onnx.ModelProto:
    """An ONNX model of the versions that packs use."""
    held = [numpy_helper.from_array(np.asarray(number), name) for name, number in (constants or {}).items()]
    graph = helper.make_graph(nodes, "tiny", [value(*i) for i in inputs], [value(*o) for o in outputs], held)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], **changes)
    built.ir_version = 10
    return built


def forward(outputs: tuple[str, str] = ("features", "logits")) -> list[onnx.NodeProto]:
    """Mean over time, one matrix, the classifier."""
    return [
        helper.make_node("ReduceMean", ["x", "one"], ["mean"], keepdims=0),
        helper.make_node("Reshape", ["model/body", "matrix"], ["mix"]),
        helper.make_node("MatMul", ["mean", "mix"], [outputs[0]]),
        helper.make_node("Gemm", [outputs[0], "model/head.weight", "model/head.bias"], [outputs[1]], transB=1),
    ]


CONSTANTS: dict[str, Any] = {"one": np.array([1], np.int64), "matrix": np.array([MELS, 2], np.int64)}


def evaluation() -> onnx.ModelProto:
    """The graph that recognises, for any batch."""
    inputs: list[tuple[str, list[Any]]] = [("x", ["batch", FRAMES, MELS]), *MODEL]
    return model(forward(), inputs, [("logits", ["batch", "labels"]), ("features", ["batch", 2])], CONSTANTS)


def step() -> onnx.ModelProto:
    """A step graph: the squared error of the logits, and a step of momentum against the weights themselves."""
    nodes = [
        *forward(("hidden", "z")),
        helper.make_node("Sub", ["z", "target"], ["error"]),
        helper.make_node("Mul", ["error", "error"], ["squares"]),
        helper.make_node("ReduceSum", ["squares", "one"], ["each"], keepdims=0),
        helper.make_node("Mul", ["each", "weight"], ["weighted"]),
        helper.make_node("ReduceSum", ["weighted"], ["loss"], keepdims=0),
    ]
    outputs: list[tuple[str, list[Any]]] = [("loss", [])]
    for (name, shape), (vector, _) in zip(MODEL, MOMENTUM, strict=True):
        nodes += [
            helper.make_node("Mul", [vector, "model.momentum"], [f"{vector}.kept"]),
            helper.make_node("Add", [f"{vector}.kept", name], [f"new/{vector}"]),
            helper.make_node("Mul", [f"new/{vector}", "model.rate"], [f"{vector}.change"]),
            helper.make_node("Sub", [name, f"{vector}.change"], [f"new/{name}"]),
        ]
        outputs += [(f"new/{name}", shape), (f"new/{vector}", shape)]
    scalars: list[tuple[str, list[Any]]] = [(f"model.{s}", []) for s in ("rate", "momentum", "decay", "clip")]
    batch: list[tuple[str, list[Any]]] = [
        ("x", [BATCH, FRAMES, MELS]),
        ("target", [BATCH, "labels"]),
        ("weight", [BATCH]),
    ]
    return model(nodes, [*batch, *scalars, *MODEL, *MOMENTUM], outputs, CONSTANTS)


def graphs() -> tuple[Graph, Graph]:
    """The manifest's entries of the two graphs."""
    entries = (
        Graph(kind="evaluate", model="lite", file=EVALUATE, inputs=(), outputs=()),
        Graph(kind="supervised", model="lite", optimizer="sgd", batch=BATCH, file=STEP, inputs=(), outputs=()),
    )
    first, second = (
        msgspec.structs.replace(entry, inputs=tuple(step_inputs(entry)), outputs=tuple(step_outputs(entry)))
        for entry in entries
    )
    return first, second


def weights(seed: int = 7) -> bytes:
    """The file of weights to start from."""
    table = TensorTable(TABLE)
    return start_file(table, table.initial(seed))


def files() -> dict[str, bytes]:
    """Every file of the pack but its manifest."""
    return {EVALUATE: evaluation().SerializeToString(), STEP: step().SerializeToString(), WEIGHTS: weights()}


def manifest(content: Mapping[str, bytes], **changes: Any) -> Manifest:
    """A manifest that lists these files."""
    trained = Start(file=WEIGHTS, data="synthetic speech", clips=90, speakers=3, accuracy=0.75, judged_clips=30)
    values: dict[str, Any] = {
        "format": FORMAT,
        "name": "tiny",
        "task": TASK,
        "plugin": "lite",
        "architectures": {"lite": TABLE},
        "graphs": graphs(),
        "producers": {"onnx": "1"},
        "start": {"lite": trained},
        "files": tuple(
            FileEntry(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in sorted(content.items())
        ),
    }
    return Manifest(**{**values, **changes})


def pack(changed: Mapping[str, bytes] | None = None, **changes: Any) -> Pack:
    """The pack, with files replaced and honestly hashed, and with parts of its manifest changed."""
    content = {**files(), **(changed or {})}
    return Pack(manifest(content, **changes), content)
