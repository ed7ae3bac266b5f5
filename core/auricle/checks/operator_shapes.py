"""The shape that each allowed operator gives, from shapes and constants alone: ONNX's own rules, opsets 13 to 21.

An operator is allowed in a pack's graph when its shape is written down here: then the size of everything a graph will
allocate is known before it runs. Control flow, random numbers, text, sequences and operators whose output depends on
the data (NonZero, Unique, Compress) are not.
Source: https://github.com/onnx/onnx/blob/v1.17.0/docs/Operators.md
"""

from __future__ import annotations

import numpy as np

from auricle.checks.onnx_reader import Node, Tensor
from auricle.checks.operator_call import Call, Constant, Rule, Shape, axis_of, broadcast, check_size, require


def _same(call: Call) -> list[Shape]:
    return [call.shape()] * len(call.node.outputs)


def _broadcast_all(call: Call) -> list[Shape]:
    return [broadcast(call.shape(0), *(call.shape(i) for i in range(1, len(call.shapes))))]


def _axes(call: Call) -> list[int] | None:
    """Axes as the second input or, in older opsets, as an attribute."""
    if call.has(1):
        return call.numbers(1)
    return call.list("axes") if "axes" in call.node.attributes else None


def _reduce(call: Call) -> list[Shape]:
    shape, axes, keep = call.shape(), _axes(call), call.number("keepdims", 1)
    if not axes:
        if call.number("noop_with_empty_axes", 0):
            return [shape]
        axes = list(range(len(shape)))
    gone = {axis_of(axis, len(shape)) for axis in axes}
    return [tuple(1 if i in gone else dim for i, dim in enumerate(shape) if keep or i not in gone)]


def _arg(call: Call) -> list[Shape]:
    shape = list(call.shape())
    axis = axis_of(call.number("axis", 0), len(shape))
    shape[axis : axis + 1] = [1] if call.number("keepdims", 1) else []
    return [tuple(shape)]


def _top(call: Call) -> list[Shape]:
    shape, count = list(call.shape()), call.numbers(1)
    require(len(count) == 1, "its count is not one number")
    shape[axis_of(call.number("axis", -1), len(shape))] = count[0]
    return [tuple(shape)] * 2


def _matmul(call: Call) -> list[Shape]:
    a, b = call.shape(0), call.shape(1)
    require(bool(a) and bool(b), "it multiplies a number, not a matrix")
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    require(a[-1] == (b[-2] if len(b) > 1 else b[0]), f"its inputs of shapes {a} and {b} do not fit each other")
    return [broadcast(a[:-2], b[:-2]) + rows + columns]


def _einsum(call: Call) -> list[Shape]:
    """Of one or two inputs, with letters only: products of more would have inner results that nothing bounds."""
    equation = call.node.attributes.get("equation", b"")
    require(isinstance(equation, bytes), "its equation is not text")
    taken, arrow, given = equation.decode("ascii", "replace").replace(" ", "").partition("->")
    terms = taken.split(",")
    letters = all(term.isalpha() or not term for term in [*terms, given]) and len(set(given)) == len(given)
    require(bool(arrow) and letters and 1 <= len(terms) == len(call.shapes) <= 2, "its equation is not of letters")
    sizes: dict[str, int] = {}
    for i, term in enumerate(terms):
        require(len(set(term)) == len(term) == len(call.shape(i)), "its equation does not fit its inputs")
        for letter, dim in zip(term, call.shape(i), strict=True):
            require(sizes.setdefault(letter, dim) == dim, "its inputs do not fit each other")
    require(set(given) <= set(sizes), "its equation names what no input has")
    return [tuple(sizes[letter] for letter in given)]


def _gemm(call: Call) -> list[Shape]:
    a, b = call.shape(0), call.shape(1)
    require(len(a) == len(b) == 2, "it multiplies what is not a matrix")
    a, b = (a[::-1] if call.number("transA", 0) else a), (b[::-1] if call.number("transB", 0) else b)
    require(a[1] == b[0], f"its inputs of shapes {a} and {b} do not fit each other")
    made = (a[0], b[1])
    if call.has(2):
        require(broadcast(made, call.shape(2)) == made, "its third input does not fit its product")
    return [made]


def _normalise(call: Call) -> list[Shape]:
    """LayerNormalization: the result, and its mean and deviation along the normalised axes."""
    shape = call.shape()
    axis = axis_of(call.number("axis", -1), len(shape))
    kept = (*shape[:axis], *(1 for _ in shape[axis:]))
    return [shape, kept, kept][: len(call.node.outputs)]


def _batch_norm(call: Call) -> list[Shape]:
    return [call.shape(), call.shape(3), call.shape(4)][: len(call.node.outputs)]


def _recurrent(call: Call) -> list[Shape]:
    """RNN, GRU, LSTM: all states (T, D, B, H) and the last ones (D, B, H); with layout 1 batch first."""
    x, w, r = (call.shape(i) for i in range(3))
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[call.node.operator]
    require(len(x) == len(w) == len(r) == 3, "its inputs are not those of a recurrent layer")
    hidden, both = r[2], w[0]
    require(call.number("hidden_size", hidden) == hidden, "its hidden_size is not that of its weights")
    require(w == (both, gates * hidden, x[2]) and r == (both, gates * hidden, hidden), "its weights do not fit")
    steps, batch = (x[1], x[0]) if call.number("layout", 0) else (x[0], x[1])
    check_size((steps, both, batch, gates * hidden))
    if call.number("layout", 0):
        return [(batch, steps, both, hidden), (batch, both, hidden), (batch, both, hidden)][: len(call.node.outputs)]
    return [(steps, both, batch, hidden), (both, batch, hidden), (both, batch, hidden)][: len(call.node.outputs)]


SAME = (
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitwiseNot",
    "Cast",
    "CastLike",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "CumSum",
    "DequantizeLinear",
    "Dropout",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "InstanceNormalization",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "MeanVarianceNormalization",
    "Mish",
    "Neg",
    "Not",
    "QuantizeLinear",
    "Reciprocal",
    "Relu",
    "ReverseSequence",
    "Round",
    "ScatterElements",
    "ScatterND",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Trilu",
)
BROADCAST = (
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
)
REDUCE = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

ARITHMETIC: dict[str, Rule] = {
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys(BROADCAST, _broadcast_all),
    **{f"Reduce{name}": _reduce for name in REDUCE},
    "ArgMax": _arg,
    "ArgMin": _arg,
    "BatchNormalization": _batch_norm,
    "Einsum": _einsum,
    "GRU": _recurrent,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "LayerNormalization": _normalise,
    "MatMul": _matmul,
    "RNN": _recurrent,
    "TopK": _top,
}
"""Operators that compute."""


def constant_of(node: Node) -> Constant | None:
    """The value of a Constant node; None where it has none, or one of another type than its name says."""
    for name, value in node.attributes.items():
        if name == "value" and isinstance(value, Tensor):
            return value.array
        numbers = value if isinstance(value, tuple) else (value,)
        kind = {"value_int": int, "value_ints": int, "value_float": float, "value_floats": float}.get(name)
        if kind is not None and all(type(number) is kind for number in numbers):
            return np.array(value, np.int64 if kind is int else np.float32)
    return None
