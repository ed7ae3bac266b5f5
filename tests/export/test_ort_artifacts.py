"""What is differentiated by onnxruntime-training: the loss put behind a graph, and recurrent layers taken apart.

The artifacts themselves need that package: see tests/edge/test_ort_training.py.
"""

from __future__ import annotations

import importlib.util

import msgspec
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.core import tiny_pack

from auricle.errors import AuricleError
from auricle.packs.graph_interface import step_inputs
from auricle_export.packs.ort_artifacts import artifacts_of, forward_model, training_packages
from auricle_export.packs.recurrent_split import one_direction_each

BATCH, TIME, WIDTH, HIDDEN = 3, 5, 4, 2
GATES = {"GRU": 3, "LSTM": 4}
TRAINER = importlib.util.find_spec("onnxruntime.training") is not None


def _run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, feeds)
    return found


def _layer(operator: str, direction: str, *, state: bool, wanted: tuple[int, ...]) -> onnx.ModelProto:
    """One recurrent layer over x (TIME, BATCH, WIDTH) with seeded weights; `wanted` are the outputs to give."""
    rng, sides, rows = np.random.default_rng(1), 2 if direction == "bidirectional" else 1, GATES[operator] * HIDDEN
    shapes = {"W": (sides, rows, WIDTH), "R": (sides, rows, HIDDEN), "B": (sides, 2 * rows)}
    inputs = ["x", *shapes]
    if state:
        shapes["h"] = (sides, BATCH, HIDDEN)
        inputs += ["", "h"]
    held = [numpy_helper.from_array(rng.standard_normal(dims).astype(np.float32), n) for n, dims in shapes.items()]
    count = 2 if operator == "GRU" else 3
    names = [f"y{i}" if i in wanted else "" for i in range(count)]
    special = {"linear_before_reset": 1} if operator == "GRU" else {}
    node = helper.make_node(operator, inputs, names, hidden_size=HIDDEN, direction=direction, **special)
    ends = [tiny_pack.value("x", [TIME, BATCH, WIDTH])], [tiny_pack.value(f"y{i}", None) for i in wanted]
    graph = helper.make_graph([node], "layer", *ends, held)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    built.ir_version = 10
    return built


@pytest.mark.parametrize("operator", ["GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("wanted", [(0, 1), (0,), (1,)])
def test_layers_of_one_direction_give_the_same(
    operator: str, direction: str, state: bool, wanted: tuple[int, ...]
) -> None:
    model = _layer(operator, direction, state=state, wanted=wanted)
    x = np.random.default_rng(0).standard_normal((TIME, BATCH, WIDTH)).astype(np.float32)
    before = _run(model, {"x": x})

    one_direction_each(model, BATCH)

    for was, now in zip(before, _run(model, {"x": x}), strict=True):
        assert np.allclose(was, now, atol=1e-6)
    layers = [node for node in model.graph.node if node.op_type == operator]
    assert len(layers) == (2 if direction == "bidirectional" else 1)
    for node in layers:
        assert all(a.s == b"forward" for a in node.attribute if a.name == "direction")
        assert all(node.input[i] for i in (0, 1, 2, 3, 5))


def _log_softmax(z: np.ndarray) -> np.ndarray:
    z = z.astype(np.float64) - z.max(1, keepdims=True)
    found: np.ndarray = z - np.log(np.exp(z).sum(1, keepdims=True))
    return found


def _feeds(weight: list[float]) -> dict[str, np.ndarray]:
    rng, size = np.random.default_rng(2), tiny_pack.BATCH
    return {
        "x": rng.standard_normal((size, tiny_pack.FRAMES, tiny_pack.MELS)).astype(np.float32),
        "target": np.eye(3, dtype=np.float32)[np.arange(size) % 3],
        "teacher": rng.standard_normal((size, 3)).astype(np.float32),
        "weight": np.array(weight, np.float32),
        **{name: np.array(value, np.float32) for name, value in (("ce", 0.4), ("kl", 0.6), ("temperature", 2))},
    }


def test_the_loss_is_the_formulas() -> None:
    """sum v [0.4 CE(s, y) + 0.6 KL(softmax(t/2) || softmax(s/2))], in float64 from the logits; weights inside are 0."""
    pack, feeds = tiny_pack.pack(), _feeds([1, 1, 0, 2])
    model = forward_model(pack, pack.graph("evaluate", "lite"), tiny_pack.BATCH)
    weights = {init.name: init for init in model.graph.initializer}
    bias = np.array([0.5, -1, 2], np.float32)
    weights["model/head.bias"].CopyFrom(numpy_helper.from_array(bias, "model/head.bias"))

    loss, logits = _run(model, feeds)
    without_weight = _run(model, _feeds([0, 0, 0, 0]))[0]

    assert logits.tolist() == [bias.tolist()] * tiny_pack.BATCH
    cool, teacher = _log_softmax(logits / 2), _log_softmax(feeds["teacher"] / 2)
    each = 0.6 * (np.exp(teacher) * (teacher - cool)).sum(1) - 0.4 * (feeds["target"] * _log_softmax(logits)).sum(1)
    assert loss == pytest.approx((each * [1, 1, 0, 2]).sum() / 4, rel=1e-6)
    assert without_weight == 0


def test_the_weights_are_the_three_parameters_and_nothing_is_random() -> None:
    pack = tiny_pack.pack()
    model, again = (forward_model(pack, pack.graph("evaluate", "lite"), 4) for _ in range(2))
    sizes = {init.name: list(init.dims) for init in model.graph.initializer if init.name.startswith("model/")}
    assert sizes == {"model/body": [6], "model/head.weight": [3, 2], "model/head.bias": [3]}
    assert model.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)
    assert model.ir_version == 10
    assert all(v.type.tensor_type.elem_type == TensorProto.FLOAT for v in model.graph.input)


@pytest.mark.skipif(TRAINER, reason="onnxruntime-training is installed here")
def test_without_the_package_the_sentence_says_how_to_get_it() -> None:
    with pytest.raises(AuricleError, match="ort-training"):
        training_packages()


def test_a_model_that_trains_otherwise_than_it_is_evaluated_is_refused() -> None:
    evaluate, step = tiny_pack.graphs()
    step = msgspec.structs.replace(step, noise={"mask": (2,)})
    step = msgspec.structs.replace(step, inputs=tuple(step_inputs(step)))
    with pytest.raises(AuricleError, match="dropout"):
        artifacts_of(tiny_pack.pack(graphs=(evaluate, step)), "lite")


def test_frozen_batch_normalisation_is_refused() -> None:
    model = tiny_pack.evaluation()
    names = ("scale", "shift", "mean", "var")
    model.graph.initializer.extend(numpy_helper.from_array(np.ones(2, np.float32), name) for name in names)
    model.graph.node.append(helper.make_node("BatchNormalization", ["features", *names], ["unused"]))
    pack = tiny_pack.pack({tiny_pack.EVALUATE: model.SerializeToString()})
    with pytest.raises(AuricleError, match="batch normalisation"):
        forward_model(pack, pack.graph("evaluate", "lite"), 4)
