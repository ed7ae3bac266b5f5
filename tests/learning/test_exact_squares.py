"""Sums of squares of long vectors, made exact for onnxruntime without touching the pack."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from auricle.checks.graph_check import check_graph
from auricle.checks.onnx_reader import read_model
from auricle.packs.pack import load_pack
from auricle_learning.runtimes.exact_squares import SHORTEST_NUMBERS, with_exact_squares
from auricle_learning.runtimes.interface import named_parts
from auricle_learning.runtimes.step import StepRuntime

PRIME = 4099


def _summed(shape: tuple[int, ...], **attributes: object) -> onnx.ModelProto:
    """A graph of one sum of squares, between a node before and one after."""
    total = helper.make_node("ReduceSumSquare", ["y"], ["s"], **{"keepdims": 0, **attributes})
    nodes = [helper.make_node("Neg", ["x"], ["y"]), total, helper.make_node("Sqrt", ["s"], ["norm"])]
    values = [helper.make_tensor_value_info(*each) for each in (("x", 1, shape), ("norm", 1, ()))]
    graph = helper.make_graph(nodes, "sum", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def _exact(model: onnx.ModelProto, shape: tuple[int, ...]) -> bytes:
    data = model.SerializeToString()
    return with_exact_squares(data, read_model(data, "The graph").nodes, {"y": shape})


@pytest.mark.parametrize("shape", [(SHORTEST_NUMBERS + 4,), (PRIME,), (151_000,), (35, 128), (1_000_003,), (70_016,)])
def test_a_long_sum_is_made_in_two_stages_and_is_exact(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    made = _exact(_summed(shape), shape)
    due = math.sqrt((x.astype(np.float64) ** 2).sum())
    onnx.checker.check_model(onnx.load_from_string(made), full_check=True)
    for found in (
        ort.InferenceSession(made, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0],
        ReferenceEvaluator(onnx.load_from_string(made)).run(None, {"x": x})[0],
    ):
        assert found.shape == ()
        assert float(found) == pytest.approx(due, rel=2e-7)


def test_all_but_the_sum_stays_as_it_is() -> None:
    before = _summed((PRIME + 1,))
    before.graph.initializer.append(helper.make_tensor("unused", TensorProto.FLOAT, [2], [1.0, 2.0]))
    before.metadata_props.add(key="made", value="by hand")
    after = onnx.load_from_string(_exact(before, (PRIME + 1,)))
    assert [node.op_type for node in after.graph.node] == ["Neg", "Mul", "Reshape", "ReduceSum", "ReduceSum", "Sqrt"]
    assert [tensor.name for tensor in after.graph.initializer][-1] == "unused"
    del after.graph.node[1:-1], after.graph.initializer[:-1], before.graph.node[1]
    assert after == before


BEFORE = b"\x7a\x08\x00\x7a\xff\xff\x7f\x00\x00\x00"
"""Field 15; who reads on in the midst of it takes a length of two million."""


@pytest.mark.parametrize(
    "number", [b"\x79" + b"\x01" * 8, b"\x7d" + b"\x01" * 4, b"\x78\x81\x01"], ids=["64", "32", "varint"]
)
def test_a_graph_is_found_behind_a_number_of_any_width(number: bytes) -> None:
    """Field 15, which ONNX does not have, as 64 bits, 32 bits and of a length of its own."""
    model = _summed((PRIME,))
    nodes = read_model(model.SerializeToString(), "The graph").nodes
    graph = onnx.ModelProto(graph=model.graph).SerializeToString()
    made = with_exact_squares(graph, nodes, {"y": (PRIME,)})
    assert len(made) > len(graph)
    assert with_exact_squares(BEFORE + number + graph, nodes, {"y": (PRIME,)}) == BEFORE + number + made


def test_lengths_are_as_short_as_protocol_buffers_make_them() -> None:
    """A node of 127 bytes is the longest whose length takes one byte."""
    model = _summed((PRIME,))
    model.graph.node[1].output[0] = model.graph.node[2].input[0] = "s" * 81
    data = _exact(model, (PRIME,))
    made = onnx.load_from_string(data)
    assert 127 in [node.ByteSize() for node in made.graph.node]
    assert len(data) == made.ByteSize()


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [((SHORTEST_NUMBERS,), {}), ((9, 1000), {"keepdims": 1}), ((9, 1000), {"noop_with_empty_axes": 1})],
)
def test_a_short_sum_or_one_that_keeps_axes_is_left(shape: tuple[int, ...], attributes: dict[str, int]) -> None:
    model = _summed(shape, **attributes)
    assert _exact(model, shape) == model.SerializeToString()


def test_every_step_graph_of_the_shipped_packs_is_sound_and_takes_and_gives_the_same_afterwards() -> None:
    for name in ("gsc12", "gsc12-res"):
        pack = load_pack(name)
        graphs = [graph for graph in pack.manifest.graphs if graph.kind != "evaluate" and graph.optimizer == "sgd"]
        for graph in graphs:
            before = check_graph(pack, graph)
            data = pack.files[graph.file]
            after = check_graph(pack, graph, content=with_exact_squares(data, before.model.nodes, before.shapes))
            assert (after.model.inputs, after.model.outputs) == (before.model.inputs, before.model.outputs)
            left = [node for node in after.model.nodes if node.operator == "ReduceSumSquare"]
            assert all(math.prod(after.shapes[node.inputs[0]]) <= SHORTEST_NUMBERS for node in left)
            assert len(after.model.nodes) > len(before.model.nodes)


def test_the_runtime_clips_by_the_exact_norm() -> None:
    """With momentum 0 and rate 1 a step moves the weights by the clipped gradient, whose norm is `clip`."""
    pack = load_pack("gsc12")
    graph = pack.graph("supervised", "crnn-wide", "sgd")
    rng, table = np.random.default_rng(0), pack.table("crnn-wide")
    feeds = {value: np.zeros((), np.float32) for value in graph.inputs if "/" not in value}
    for vector, values in (("model", table.initial(0)), ("model.momentum", np.zeros(table.size, np.float32))):
        feeds |= named_parts(vector, table, values)
    feeds |= {"x": rng.standard_normal((16, 100, 40), np.float32), "weight": np.ones(16, np.float32)}
    feeds |= {"target": np.eye(12, dtype=np.float32)[rng.integers(0, 12, 16)]}
    feeds |= {"model.rate": np.array(1, np.float32), "model.clip": np.array(1e-3, np.float32)}
    given = dict(zip(graph.outputs, StepRuntime(pack).step(graph, feeds), strict=True))
    moved = [given[f"new/model.momentum/{part}"].astype(np.float64) for part in ("body", "head.weight", "head.bias")]
    assert math.sqrt(sum((part**2).sum() for part in moved)) == pytest.approx(1e-3, rel=3e-7)
