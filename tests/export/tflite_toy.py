"""Small packs around an evaluation graph written as text, and LiteRT and onnxruntime side by side on them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from auricle.packs.frontend import Frontend
from auricle.packs.graph_interface import Graph, step_inputs, step_outputs
from auricle.packs.manifest import FORMAT, FileEntry, Manifest, Task
from auricle.packs.pack import Pack
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import Flat
from auricle_learning.runtimes.interface import named_parts

FILE = "graphs/net.evaluate.onnx"
GRAPH = Graph(kind="evaluate", model="net", file=FILE, inputs=(), outputs=())


def needs_litert() -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed: no wheel for this Python or machine")
    needs_schema()


def needs_schema() -> None:
    """Skip where `.tflite` files cannot be written."""
    pytest.importorskip("tflite", reason='the schema package tflite is not installed: pip install ".[export]"')


def pack_around(content: bytes, specs: Sequence[TensorSpec], labels: int, frames: int, mels: int) -> Pack:
    """A pack of one model, `net`, that is its own plug-in, with an evaluation graph."""
    told: dict[str, Any] = {"inputs": tuple(step_inputs(GRAPH)), "outputs": tuple(step_outputs(GRAPH))}
    graph = Graph(kind="evaluate", model="net", file=FILE, **told)
    entry = FileEntry(path=FILE, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    task = Task(tuple(f"w{i}" for i in range(labels)), frames=frames, frontend=Frontend(mels=mels))
    facts: dict[str, Any] = {"architectures": {"net": tuple(specs)}, "graphs": (graph,), "files": (entry,)}
    manifest = Manifest(format=FORMAT, name="toy", task=task, plugin="net", producers={}, **facts)
    return Pack(manifest, {FILE: content})


def operator_pack(
    lines: str,
    tensors: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, Any],
    frames: int,
    mels: int,
    opset: int = 18,
) -> Pack:
    """A pack whose logits are `y` of the lines, flattened, plus the classifier's bias."""
    nodes = [onnx.parser.parse_node(line.strip()) for line in lines.strip().splitlines()]
    sizes = [int(np.prod(shape)) for shape in tensors.values()]
    if tensors:
        cut = [f"{name}.flat" for name in tensors]
        nodes = [
            helper.make_node("Split", ["model/body", "sizes"], cut, axis=0),
            *(helper.make_node("Reshape", [f"{name}.flat", f"{name}.shape"], [name]) for name in tensors),
            *nodes,
        ]
    fixed = {**constants, "sizes": np.array(sizes, np.int64), "flat": np.array([0, -1], np.int64)}
    fixed |= {f"{name}.shape": np.array(shape, np.int64) for name, shape in tensors.items()}
    shape = _shape_of_y(nodes, fixed, sum(sizes), frames, mels, opset)
    labels = int(np.prod(shape[1:]))
    nodes += [
        helper.make_node("Reshape", ["y", "flat"], ["features"]),
        helper.make_node("Add", ["features", "model/head.bias"], ["logits"]),
    ]
    content = _model(nodes, fixed, sum(sizes), frames, mels, opset, ("logits", "features")).SerializeToString()
    specs = [TensorSpec(name, shape, name, 0.5) for name, shape in tensors.items()]
    specs += [TensorSpec("head.weight", (labels, 1), "head", 0.5), TensorSpec("head.bias", (labels,), "head", 0.5)]
    return pack_around(content, specs, labels, frames, mels)


def _model(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Any],
    body: int,
    frames: int,
    mels: int,
    opset: int,
    outputs: Sequence[str],
) -> onnx.ModelProto:
    kinds: dict[str, list[Any]] = {"x": ["batch", frames, mels], "model/body": [body]}
    kinds |= {"model/head.weight": ["labels", 1], "model/head.bias": ["labels"]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in kinds.items()]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "toy", inputs, made, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    return model


def _shape_of_y(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Any], body: int, frames: int, mels: int, opset: int
) -> tuple[int, ...]:
    model = _model(nodes, constants, body, frames, mels, opset, ("y",))
    session = _session(model.SerializeToString())
    zeros = {"x": np.zeros((1, frames, mels), np.float32), "model/body": np.zeros(body, np.float32)}
    used = {value.name for value in session.get_inputs()}
    zeros |= {"model/head.weight": np.zeros((1, 1), np.float32), "model/head.bias": np.zeros(1, np.float32)}
    return tuple(session.run(["y"], {k: v for k, v in zeros.items() if k in used})[0].shape)


def _session(content: bytes) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def features(pack: Pack, count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Random log-mels (count, frames, mels)."""
    task = pack.manifest.task
    draw = np.random.default_rng(seed).standard_normal((count, task.frames, task.frontend.mels))
    return draw.astype(np.float32)


def by_onnxruntime(pack: Pack, model: str, weights: Flat, x: Any) -> Any:
    """Logits of the pack's evaluation graph."""
    graph = pack.graph("evaluate", model)
    session = _session(pack.files[graph.file])
    feeds = {"x": x, **named_parts("model", pack.table(model), weights)}
    used = {value.name for value in session.get_inputs()}
    return session.run(["logits"], {name: value for name, value in feeds.items() if name in used})[0]


def assert_agrees(pack: Pack, model: str, precision: str, tolerance: float) -> None:
    """LiteRT gives onnxruntime's logits for two weight vectors that are put in, within a share of the largest logit."""
    from auricle_edge.runtimes.tflite import TfliteRuntime

    runtime, x = TfliteRuntime(pack, precision=precision), features(pack, 4)
    for seed in (1, 2):
        weights = pack.table(model).initial(seed)
        expected = by_onnxruntime(pack, model, weights, x)
        found = runtime.logits(model, weights, x)
        assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()
