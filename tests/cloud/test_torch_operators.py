"""Every operator that PyTorch computes for an `evaluate` graph, node by node against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

# ruff: noqa: E402 - PyTorch may be missing
torch = pytest.importorskip("torch", reason="what is tested")
onnx = pytest.importorskip("onnx", reason="nodes are made with it")
ort = pytest.importorskip("onnxruntime", reason="the reference")

from auricle.checks.onnx_reader import read_model
from auricle_cloud.evaluation.torch_operators import Call, UnknownOperatorError
from auricle_cloud.evaluation.torch_recurrent import KNOWN

RNG = np.random.default_rng(0)


def _f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 2.0, shape).astype(np.float32)


def _i(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def _b(*shape: int) -> np.ndarray:
    return RNG.random(shape) < 0.5


X = _f(2, 3, 5)
RECURRENT = {"GRU": 3, "LSTM": 4, "RNN": 1}


def _cell(kind: str, ways: int = 1, **attributes: Any) -> tuple[str, list[Any], dict[str, Any]]:
    gates = RECURRENT[kind]
    inputs = [_f(6, 2, 3), _f(ways, gates * 4, 3), _f(ways, gates * 4, 4), _f(ways, 2 * gates * 4), None]
    inputs += [_f(ways, 2, 4)] * (2 if kind == "LSTM" else 1)
    return kind, inputs, {"hidden_size": 4, **attributes}


CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    *(
        (name, [X], {})
        for name in (
            "Abs",
            "Ceil",
            "Cos",
            "Erf",
            "Exp",
            "Floor",
            "Neg",
            "Relu",
            "Round",
            "Sigmoid",
            "Sign",
            "Sin",
            "Tanh",
            "HardSwish",
            "Mish",
            "Selu",
            "Softplus",
            "Softsign",
            "Identity",
            "IsNaN",
        )
    ),
    *((name, [_positive(2, 3)], {}) for name in ("Log", "Sqrt", "Reciprocal")),
    *((name, [X], {"alpha": 0.3}) for name in ("Elu", "Celu", "LeakyRelu")),
    ("HardSigmoid", [X], {"alpha": 0.3, "beta": 0.4}),
    ("HardSigmoid", [X], {}),
    ("Gelu", [X], {}),
    ("Gelu", [X], {"approximate": "tanh"}),
    ("Clip", [X, np.float32(-0.5), np.float32(0.5)], {}),
    ("Clip", [X, None, np.float32(0.5)], {}),
    ("Cast", [np.array([1, 2])], {"to": 1}),
    ("Softmax", [X], {"axis": 1}),
    ("LogSoftmax", [X], {}),
    *(
        (name, [X, _f(3, 1)], {})
        for name in (
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Equal",
            "Greater",
            "GreaterOrEqual",
            "Less",
            "LessOrEqual",
            "PRelu",
        )
    ),
    ("Pow", [_positive(2, 3), np.float32(2.5)], {}),
    ("Not", [_b(2, 3)], {}),
    *((name, [_b(2, 3), _b(3)], {}) for name in ("And", "Or")),
    *((name, [X, _f(3, 1), _f(5)], {}) for name in ("Max", "Min", "Sum")),
    ("Where", [_b(3, 5), X, _f(5)], {}),
    *(
        (name, [X, _i(1)], {})
        for name in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare")
    ),
    ("ReduceMean", [X, _i(-1, 0)], {"keepdims": 0}),
    ("ReduceSum", [X], {}),
    ("ReduceSum", [X], {"noop_with_empty_axes": 1}),
    ("Flatten", [X], {"axis": 2}),
    ("Reshape", [X, _i(0, -1)], {}),
    ("Squeeze", [_f(2, 1, 3), _i(1)], {}),
    ("Unsqueeze", [X, _i(0, 4)], {}),
    ("Concat", [X, _f(2, 4, 5)], {"axis": -2}),
    ("Expand", [_f(3, 1), _i(2, 3, 5)], {}),
    ("ConstantOfShape", [_i(2, 3)], {"value": onnx.numpy_helper.from_array(np.array([1.5], np.float32))}),
    ("Tile", [X, _i(1, 2, 3)], {}),
    ("Transpose", [X], {"perm": [2, 0, 1]}),
    ("Transpose", [X], {}),
    ("Gather", [X, np.array([[2, -1], [0, 1]])], {"axis": 1}),
    ("Gather", [X, np.array(1)], {"axis": -1}),
    ("Pad", [X, _i(0, 1, 2, 0, 0, 3)], {}),
    ("Pad", [X, _i(1, 2), np.float32(7), _i(-1)], {}),
    ("Slice", [X, _i(1, -3), _i(9, -1), _i(1, 2)], {}),
    ("Slice", [X, _i(4), _i(-9), _i(2), _i(-2)], {}),
    ("Slice", [X, _i(0), _i(2**62), _i(-1), _i(3)], {}),
    ("Split", [X, _i(1, 4)], {"axis": 2, "outputs": 2}),
    ("Einsum", [X, _f(2, 5, 4)], {"equation": "bij,bjk->bki"}),
    ("MatMul", [X, _f(5, 4)], {}),
    ("Gemm", [_f(3, 4), _f(4, 2), _f(2)], {"alpha": 0.5, "beta": 2.0}),
    ("Gemm", [_f(4, 3), _f(2, 4)], {"transA": 1, "transB": 1}),
    ("Conv", [_f(2, 4, 9), _f(6, 2, 3), _f(6)], {"group": 2, "pads": [2, 1], "strides": [2]}),
    ("Conv", [_f(2, 3, 9, 8), _f(4, 3, 3, 2)], {"pads": [0, 1, 2, 0], "dilations": [2, 1]}),
    ("MaxPool", [_f(2, 3, 9)], {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
    ("MaxPool", [_f(2, 3, 9, 8)], {"kernel_shape": [2, 3], "strides": [2, 1]}),
    ("AveragePool", [_f(2, 3, 9)], {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ("AveragePool", [_f(2, 3, 9, 8)], {"kernel_shape": [2, 3], "pads": [1, 1, 0, 2], "count_include_pad": 1}),
    ("AveragePool", [_f(2, 3, 9)], {"kernel_shape": [4]}),
    ("GlobalAveragePool", [_f(2, 3, 4, 5)], {}),
    ("GlobalMaxPool", [_f(2, 3, 4)], {}),
    ("BatchNormalization", [_f(2, 3, 4, 5), _f(3), _f(3), _f(3), _positive(3)], {"epsilon": 0.01}),
    ("InstanceNormalization", [_f(2, 3, 4, 5), _f(3), _f(3)], {}),
    ("LayerNormalization", [X, _f(3, 5), _f(3, 5)], {"axis": 1}),
    ("LayerNormalization", [X, _f(5)], {}),
    _cell("GRU"),
    _cell("GRU", linear_before_reset=1),
    _cell("GRU", direction="reverse"),
    _cell("GRU", 2, direction="bidirectional", linear_before_reset=1),
    _cell("LSTM"),
    _cell("LSTM", direction="reverse"),
    _cell("LSTM", 2, direction="bidirectional"),
    _cell("RNN"),
    _cell("RNN", 2, direction="bidirectional", activations=["Relu", "Relu"]),
    ("GRU", [_f(5, 2, 3), _f(1, 12, 3), _f(1, 12, 4)], {"hidden_size": 4}),
    ("LSTM", [_f(5, 2, 3), _f(1, 16, 3), _f(1, 16, 4)], {"hidden_size": 4}),
]


def _made(operator: str, inputs: list[Any], attributes: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """A model of one node, and what to feed it."""
    settings = dict(attributes)
    outputs = {"GRU": 2, "RNN": 2, "LSTM": 3}.get(operator, settings.pop("outputs", 1))
    names = [f"in{place}" if value is not None else "" for place, value in enumerate(inputs)]
    node = onnx.helper.make_node(operator, names, [f"out{place}" for place in range(outputs)], **settings)
    feeds = {name: np.asarray(value) for name, value in zip(names, inputs, strict=True) if value is not None}
    taken = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    given = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = onnx.helper.make_graph([node], "g", taken, given)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model).SerializeToString(), feeds


def _run(data: bytes, inputs: list[Any], shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    node = read_model(data, "the node").nodes[0]
    constants = [None if value is None else np.asarray(value) for value in inputs]
    tensors = [None if value is None else torch.from_numpy(np.array(value)) for value in constants]
    found = KNOWN[node.operator](Call(torch, node, tensors, constants, shapes))
    return [value.numpy() for value in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize(("operator", "inputs", "attributes"), CASES, ids=[case[0] for case in CASES])
def test_an_operator_gives_what_onnxruntime_gives(operator: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    data, feeds = _made(operator, inputs, attributes)
    reference = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)

    found = _run(data, inputs, [value.shape for value in reference])

    for ours, due in zip(found, reference, strict=True):
        assert ours.shape == due.shape and ours.dtype == due.dtype
        np.testing.assert_allclose(ours, due, rtol=1e-5, atol=1e-6)


def test_every_operator_is_tested() -> None:
    assert {case[0] for case in CASES} == set(KNOWN)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("Div", [_i(6), _i(4)], {}),
        ("MaxPool", [_f(2, 3, 9)], {"kernel_shape": [2], "ceil_mode": 1}),
        ("Conv", [_f(2, 3, 9), _f(4, 3, 3)], {"auto_pad": "SAME_UPPER"}),
        ("Cast", [X], {"to": 11}),
        ("Pad", [X, _i(0, 0, 1, 0, 0, 1)], {"mode": "reflect"}),
        _cell("GRU", activations=["Tanh", "Tanh"]),
        _cell("GRU", layout=1),
        _cell("LSTM", clip=1.0),
        _cell("RNN", activations=["Sigmoid"]),
        ("BatchNormalization", [_f(2, 3, 4), _f(3), _f(3), _f(3), _positive(3)], {"training_mode": 1, "outputs": 3}),
    ],
)
def test_a_setting_that_is_not_known_is_refused_and_not_guessed(
    operator: str, inputs: list[Any], attributes: dict[str, Any]
) -> None:
    data, _ = _made(operator, inputs, attributes)

    with pytest.raises(UnknownOperatorError, match=f"The operator {operator} with "):
        _run(data, inputs, [(1,)] * 3)
