"""Operators of evaluation graphs: what the library makes of each is what onnxruntime makes of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.core import tiny_pack

from auricle.packs.pack import Pack
from auricle_learning.native.library import compiler
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import StepRuntime

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
RNG = np.random.default_rng(1)
HIDDEN = tiny_pack.MELS
OPSET = 19
"""The first that has the mode `wrap` of Pad."""


def _pack(nodes: list[onnx.NodeProto], constants: dict[str, Any]) -> Pack:
    """A pack whose evaluation graph sees `y` in place of `x`, both (B, 5, 3)."""
    model = tiny_pack.evaluation()
    for node in model.graph.node:
        node.input[:] = ["y" if name == "x" else name for name in node.input]
    before = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *before])
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    model.opset_import[0].version = OPSET
    return tiny_pack.pack({tiny_pack.EVALUATE: model.SerializeToString()})


def _check(nodes: list[onnx.NodeProto], **constants: Any) -> None:
    pack, weights = _pack(nodes, constants), np.linspace(-1, 1, 15, dtype=np.float32)
    x = np.float32([-40, -3, -1e-3, 0, 0.5, 3, 50])[RNG.integers(0, 7, (4, tiny_pack.FRAMES, tiny_pack.MELS))]
    x += RNG.standard_normal(x.shape, np.float32) * np.float32(0.1)
    native = NativeRuntime(pack)
    found = native.logits("lite", weights, x)
    assert native.reasons == {}
    due = StepRuntime(pack).logits("lite", weights, x)
    np.testing.assert_allclose(found, due, rtol=1e-5, atol=1e-5 * np.abs(due).max())


@pytest.mark.parametrize(
    "name",
    ["Celu", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Selu", "Softplus"],
)
def test_activations(name: str) -> None:
    _check([helper.make_node(name, ["x"], ["y"])])


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("Celu", {"alpha": 0.3}),
        ("Elu", {"alpha": 0.3}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.1}),
        ("LeakyRelu", {"alpha": 0.3}),
    ],
)
def test_activations_with_other_numbers(name: str, attributes: dict[str, float]) -> None:
    _check([helper.make_node(name, ["x"], ["y"], **attributes)])


@pytest.mark.parametrize("slope", [np.float32(0.2), np.float32([0.1, -0.5, 1.5]), np.float32([[0.1]] * 5)])
def test_prelu_has_a_slope_or_one_a_channel(slope: np.ndarray) -> None:
    _check([helper.make_node("PRelu", ["x", "slope"], ["y"])], slope=slope)


@pytest.mark.parametrize("bounds", [{"low": -1.0}, {"high": 2.0}, {"low": -1.0, "high": 2.0}])
def test_clip_has_either_bound_or_both(bounds: dict[str, float]) -> None:
    names = [name if name in bounds else "" for name in ("low", "high")]
    _check([helper.make_node("Clip", ["x", *names], ["y"])], **{n: np.float32(v) for n, v in bounds.items()})


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap", "constant"])
def test_edges_are_what_the_mode_says(mode: str) -> None:
    lists = {"pads": [0, 2, 2, 0, 1, 1], "start": [0], "end": [3], "axes": [2]}
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["wide"], mode=mode),
        helper.make_node("Slice", ["wide", "start", "end", "axes"], ["y"]),
    ]
    _check(nodes, **{name: np.array(value, np.int64) for name, value in lists.items()})


def test_doubles_are_single_numbers_and_no_axes_are_all_of_them() -> None:
    """As the masks of activation dropout have both."""
    double = onnx.TensorProto.DOUBLE
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=double),
        helper.make_node("ReduceSum", ["wide", "axes"], ["total"], keepdims=0, noop_with_empty_axes=0),
        helper.make_node("Mul", ["wide", "total"], ["product"]),
        helper.make_node("Cast", ["product"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    _check(nodes, axes=np.zeros(0, np.int64))


@pytest.mark.parametrize(("name", "how"), [("MaxPool", {}), ("AveragePool", {"count_include_pad": 1})])
@pytest.mark.parametrize("pads", [[1, 1], [2, 0]])
def test_pooling_pads(name: str, how: dict[str, int], pads: list[int]) -> None:
    _check([helper.make_node(name, ["x"], ["y"], kernel_shape=[3], pads=pads, **how)])


@pytest.mark.parametrize(
    ("kernel", "strides", "dilations", "pads"),
    [
        ([3, 1], [1, 1], [1, 1], [1, 0, 1, 0]),
        ([3, 2], [1, 1], [2, 1], [4, 1, 0, 0]),
        ([1, 2], [1, 2], [1, 1], [0, 0, 0, 0]),
        ([3, 3], [2, 2], [1, 1], [4, 2, 0, 2]),
        ([1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([9, 8], [1, 1], [1, 1], [4, 4, 4, 3]),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_depthwise_convolutions(
    kernel: list[int], strides: list[int], dilations: list[int], pads: list[int], bias: bool
) -> None:
    """Of five channels (3, 2); with three rows of whatever width they make."""
    names = ["wide", "w", "b"] if bias else ["wide", "w"]
    nodes = [
        helper.make_node("Unsqueeze", ["x", "last"], ["single"]),
        helper.make_node("Exp", ["single"], ["other"]),
        helper.make_node("Tanh", ["single"], ["small"]),
        helper.make_node("Sigmoid", ["other"], ["bounded"]),
        helper.make_node("Concat", ["small", "bounded"], ["wide"], axis=3),
        helper.make_node(
            "Conv", names, ["made"], group=5, kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads
        ),
        helper.make_node("ReduceMean", ["made", "last"], ["y"], keepdims=0),
    ]
    constants = {"w": RNG.standard_normal((5, 1, *kernel), np.float32), "last": np.array([3], np.int64)}
    _check(nodes, **constants, **({"b": RNG.standard_normal(5, np.float32)} if bias else {}))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("optional", ["nothing", "biases", "states"])
def test_lstm(direction: str, optional: str) -> None:
    """Its states, and the last state and cell added to all of them."""
    ways = 2 if direction == "bidirectional" else 1
    numbers = {
        "w": RNG.standard_normal((ways, 4 * HIDDEN, tiny_pack.MELS), np.float32) / 10,
        "r": RNG.standard_normal((ways, 4 * HIDDEN, HIDDEN), np.float32),
    }
    more = []
    if optional != "nothing":
        numbers["b"] = RNG.standard_normal((ways, 8 * HIDDEN), np.float32)
        more = ["b"]
    before = [helper.make_node("Transpose", ["x"], ["steps"], perm=[1, 0, 2])]
    if optional == "states":
        numbers["half"] = np.float32(0.5)
        before += [
            helper.make_node("Slice", ["steps", "zero", "ways", "zero"], ["cut"]),
            helper.make_node("Clip", ["cut", "", "half"], ["first"]),
        ]
        more += ["", "first", "cut"]
    lists = {"one": [1], "zero": [0], "ways": [ways]}
    constants = {**numbers, **{name: np.array(value, np.int64) for name, value in lists.items() if name != "one"}}
    nodes = [
        *before,
        helper.make_node(
            "LSTM",
            ["steps", "w", "r", *more],
            ["all", "last", "cell"],
            hidden_size=HIDDEN,
            direction=direction,
            input_forget=0,
        ),
        helper.make_node("ReduceMean", ["all", "one"], ["middle"], keepdims=0),
        helper.make_node("Sum", ["last", "cell"], ["ends"]),
        helper.make_node("ReduceSum", ["ends", "zero"], ["end"], keepdims=1),
        helper.make_node("Add", ["middle", "end"], ["moved"]),
        helper.make_node("Transpose", ["moved"], ["y"], perm=[1, 0, 2]),
    ]
    _check(nodes, **constants)


def test_activations_go_on_with_nan() -> None:
    """A diverged training shows that it did, whatever the activation."""
    for name in ("HardSwish", "LeakyRelu", "Softplus"):
        native = NativeRuntime(_pack([helper.make_node(name, ["x"], ["y"])], {}))
        x = np.full((1, tiny_pack.FRAMES, tiny_pack.MELS), math.nan, np.float32)
        assert np.isnan(native.logits("lite", np.ones(15, np.float32), x)).all(), name
