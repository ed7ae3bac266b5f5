"""What each value of an evaluation graph is once the batch is fixed: a constant, weights in some order, or an input's.

The graph is run once by onnxruntime with every intermediate value as an output. Values that depend on no input are
constants. For the weights, each weight's place in the flat vector is fed in its stead: a value made of them by moving
alone then says of each of its numbers which weight it is.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnxruntime as ort
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.checks.tflite_weights import network_table
from auricle.errors import PackError
from auricle.packs.pack import Graph, Pack

Array = NDArray[Any]
MOVING = {
    "Concat",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
}
"""Operators that move numbers and change none."""
MOST_WEIGHTS = 1 << 24
"""Whole numbers up to here are exact in float32."""
OUTPUT = "logits"


@dataclass(frozen=True)
class Constant:
    """A value that is always the same."""

    array: Array


@dataclass(frozen=True)
class Places:
    """Weights in some order: the place of each in the model's flat vector, -1 for a zero."""

    index: NDArray[np.int64]


@dataclass(frozen=True)
class Trace:
    """A graph with its batch fixed."""

    nodes: tuple[onnx.NodeProto, ...]
    """Those whose outputs depend on the input, in order."""
    fixed: dict[str, Constant | Places]
    """Values that do not depend on it."""
    shapes: dict[str, tuple[int, ...]]
    """Of every value."""


def trace(pack: Pack, graph: Graph, batch: int) -> Trace:
    """Run a pack's evaluation graph once and sort its values.

    Raises
    ------
    PackError
        The model is too large, or the graph has control flow or cannot be run.
    """
    table, task = pack.table(graph.model), pack.manifest.task
    if table.size >= MOST_WEIGHTS:
        raise PackError(f"{graph.model} has {table.size} weights; a .tflite is written for less than {MOST_WEIGHTS}.")
    model = onnx.load_from_string(pack.files[graph.file])
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    body, weight, bias = table.parts(np.arange(1, table.size + 1, dtype=np.float32))
    x = np.random.Generator(np.random.PCG64(1)).standard_normal((batch, *task.input_shape))
    feeds = {"x": x.astype(np.float32), "model/body": body, "model/head.weight": weight, "model/head.bias": bias}
    return _sort(model.graph, feeds, _values(model, feeds, graph.file), {"x"})


def trace_network(pack: Pack, graph: Graph, taken: dict[str, tuple[int, ...]]) -> Trace:
    """The same of a graph of the network of a pack's front-end, which takes inputs of these shapes beside its tensors.

    Raises
    ------
    PackError
        onnxruntime cannot run it.
    """
    network = pack.manifest.task.frontend.network
    assert network is not UNSET
    table, rng = network_table(network), np.random.Generator(np.random.PCG64(1))
    if table.size >= MOST_WEIGHTS:
        raise PackError(f"{graph.model} has {table.size} weights; a .tflite is written for less than {MOST_WEIGHTS}.")
    places, model = np.arange(1, table.size + 1, dtype=np.float32), onnx.load_from_string(pack.files[graph.file])
    feeds: dict[str, Array] = {f"network/{spec.name}": table.tensor(places, spec.name) for spec in table.specs}
    feeds |= {name: rng.standard_normal(shape).astype(np.float32) for name, shape in taken.items()}
    return _sort(model.graph, feeds, _values(model, feeds, graph.file), taken)


def _values(model: onnx.ModelProto, feeds: dict[str, Array], file: str) -> dict[str, Array]:
    """Every value of the graph, initialisers included."""
    for node in model.graph.node:
        if any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute):
            raise PackError(f"{file} branches at {describe(node)}: a .tflite is written for straight graphs only.")
    names = [output for node in model.graph.node for output in node.output if output]
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = ort.InferenceSession(exposed.SerializeToString(), options, providers=["CPUExecutionProvider"])
        taken = {value.name for value in session.get_inputs()}
        found = dict(zip(names, session.run(names, {k: v for k, v in feeds.items() if k in taken}), strict=True))
    except Exception as error:
        raise PackError(f"onnxruntime cannot run {file}: {error}") from error
    found |= {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    return found | feeds


def _sort(graph: onnx.GraphProto, feeds: dict[str, Array], values: dict[str, Array], inputs: Container[str]) -> Trace:
    fixed: dict[str, Constant | Places] = {}
    for tensor in graph.initializer:
        fixed[tensor.name] = Constant(values[tensor.name])
    for name, array in feeds.items():
        if name not in inputs:
            fixed[name] = Places(array.astype(np.int64) - 1)
    live = []
    for node in graph.node:
        known = [fixed.get(name) for name in node.input if name]
        if node.op_type in ("Shape", "Size") or all(isinstance(k, Constant) for k in known):
            fixed |= {name: Constant(values[name]) for name in node.output if name}
        elif node.op_type in MOVING and all(_moves(k) for k in known):
            fixed |= {name: Places(values[name].astype(np.int64) - 1) for name in node.output if name}
        else:
            live.append(node)
    return Trace(tuple(live), fixed, {name: tuple(array.shape) for name, array in values.items()})


def _moves(value: Constant | Places | None) -> bool:
    """Weights, zeros among them, or the integers that say how they are moved."""
    if isinstance(value, Constant):
        return value.array.dtype.kind in "iu" or not value.array.any()
    return value is not None


def describe(node: onnx.NodeProto) -> str:
    """A node as a message names it."""
    return f"{node.op_type} ({node.name or node.output[0]})"
