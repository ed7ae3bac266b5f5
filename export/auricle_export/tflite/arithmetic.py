"""Operators that work number by number, and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from auricle_export.tflite.trace import Constant
from auricle_export.tflite.translation import FUSED, MOST_AXES, Live, Node, Translation

Translator = Callable[[Translation, Node], None]

UNARY = {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "HardSwish": "HARD_SWISH",
    "Log": "LOG",
    "Neg": "NEG",
    "Relu": "RELU",
    "Round": "ROUND",
    "Sigmoid": "LOGISTIC",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}
BINARY = {
    "Add": ("ADD", "AddOptions"),
    "Sub": ("SUB", "SubOptions"),
    "Mul": ("MUL", "MulOptions"),
    "Div": ("DIV", "DivOptions"),
    "Pow": ("POW", "PowOptions"),
    "Max": ("MAXIMUM", "MaximumMinimumOptions"),
    "Min": ("MINIMUM", "MaximumMinimumOptions"),
}
FUSING = ("Add", "Sub", "Mul", "Div")
REDUCTIONS = {"ReduceMean": "MEAN", "ReduceSum": "SUM", "ReduceMax": "REDUCE_MAX", "ReduceMin": "REDUCE_MIN"}
ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
ERF_P = 0.3275911


class Numbers:
    """Arithmetic on tensors of one shape and on scalars, in a draft."""

    def __init__(self, t: Translation, like: int) -> None:
        self.draft, self.shape = t.draft, t.draft.shape(like)

    def _operand(self, value: int | float) -> int:
        return self.draft.constant(np.array([value], np.float32)) if isinstance(value, float) else value

    def _binary(self, operator: str, a: int | float, b: int | float) -> int:
        code, options = BINARY[operator]
        return self.draft.add(code, [self._operand(a), self._operand(b)], self.shape, options)

    def add(self, a: int | float, b: int | float) -> int:
        """Sum of tensors (int) and numbers (float)."""
        return self._binary("Add", a, b)

    def sub(self, a: int | float, b: int | float) -> int:
        """Difference."""
        return self._binary("Sub", a, b)

    def mul(self, a: int | float, b: int | float) -> int:
        """Product."""
        return self._binary("Mul", a, b)

    def div(self, a: int | float, b: int | float) -> int:
        """Quotient."""
        return self._binary("Div", a, b)

    def larger(self, a: int | float, b: int | float) -> int:
        """Larger of the two."""
        return self._binary("Max", a, b)

    def smaller(self, a: int | float, b: int | float) -> int:
        """Smaller of the two."""
        return self._binary("Min", a, b)

    def apply(self, code: str, a: int) -> int:
        """A TensorFlow Lite operator without options, number by number."""
        return self.draft.add(code, [a], self.shape)


def _unary(t: Translation, node: Node) -> None:
    x = t.live(node)
    if node.operator == "Relu" and t.fuse_relu(node.inputs[0]):
        t.set(node.outputs[0], x.tensor, x.order)
        return
    tensor = t.draft.add(UNARY[node.operator], [x.tensor], t.draft.shape(x.tensor))
    t.set(node.outputs[0], tensor, x.order)


def _binary(t: Translation, node: Node) -> None:
    code, options = BINARY[node.operator]
    name, shape = node.outputs[0], t.shape(node.outputs[0])
    if len(shape) > MOST_AXES:
        raise node.refuse(f"it has {len(shape)} axes, at most {MOST_AXES} are possible")
    if len(node.inputs) != 2:
        raise node.refuse("it has other than two inputs")
    order = t.order_for(node.inputs, len(shape))
    operands = [t.aligned(input_name, order) for input_name in node.inputs]
    fields = {FUSED: 0} if node.operator in FUSING else {}
    t.set(name, t.draft.add(code, operands, t.physical(shape, order), options, **fields), order)


def _reduce(t: Translation, node: Node) -> None:
    x = t.live(node)
    axes = node.get("axes", None)
    if axes is None:
        axes = t.numbers(node, 1).tolist() if node.has(1) else []
    if not axes and node.get("noop_with_empty_axes", 0):
        raise node.refuse("it reduces over no axes")
    chosen = {int(a) % len(x.shape) for a in axes} if axes else set(range(len(x.shape)))
    tensor = reduce(t, x, chosen, REDUCTIONS[node.operator])
    if node.get("keepdims", 1):
        t.set(node.outputs[0], tensor, x.order)
        return
    kept = [axis for axis in x.order if axis not in chosen]
    tensor = t.draft.reshape(tensor, [x.shape[axis] for axis in kept])
    t.set(node.outputs[0], tensor, [sorted(kept).index(axis) for axis in kept])


def reduce(t: Translation, x: Live, axes: set[int], code: str) -> int:
    """Reduce over logical axes and keep them as axes of size 1, in the value's own order."""
    places = [place for place, axis in enumerate(x.order) if axis in axes]
    shape = [1 if axis in axes else x.shape[axis] for axis in x.order]
    axes_tensor = t.draft.constant(np.array(places, np.int32))
    return t.draft.add(code, [x.tensor, axes_tensor], shape, "ReducerOptions", KeepDims=True)


def _softmax(t: Translation, node: Node) -> None:
    x = t.live(node)
    axis = node.get("axis", -1) % len(x.shape)
    order = [*(a for a in x.order if a != axis), axis]
    logarithm = node.operator == "LogSoftmax"
    options: tuple[str, dict[str, Any]] = ("LogSoftmaxOptions", {}) if logarithm else ("SoftmaxOptions", {"Beta": 1.0})
    code, shape = "LOG_SOFTMAX" if logarithm else "SOFTMAX", t.physical(x.shape, order)
    t.set(node.outputs[0], t.draft.add(code, [t.realise(x, order)], shape, options[0], **options[1]), order)


def _elementwise(make: Callable[[Numbers, int, Node], int]) -> Translator:
    """A translator from a formula on one tensor."""

    def translate(t: Translation, node: Node) -> None:
        x = t.live(node)
        t.set(node.outputs[0], make(Numbers(t, x.tensor), x.tensor, node), x.order)

    return translate


def _erf(n: Numbers, x: int, _: Node) -> int:
    """Abramowitz and Stegun 7.1.26: within 1.5e-7, about float32's own steps near 1."""
    magnitude = n.apply("ABS", x)
    s = n.div(1.0, n.add(n.mul(magnitude, ERF_P), 1.0))
    polynomial: int | float = ERF[4]
    for coefficient in (*ERF[3::-1], 0.0):
        scaled = n.mul(s, polynomial)
        polynomial = n.add(scaled, coefficient) if coefficient else scaled
    bell = n.apply("EXP", n.apply("NEG", n.mul(x, x)))
    return n.mul(n.apply("SIGN", x), n.sub(1.0, n.mul(polynomial, bell)))


def _softplus(n: Numbers, x: int, _: Node) -> int:
    tail = n.apply("LOG", n.add(n.apply("EXP", n.apply("NEG", n.apply("ABS", x))), 1.0))
    return n.add(n.apply("RELU", x), tail)


def _hard_sigmoid(n: Numbers, x: int, node: Node) -> int:
    line = n.add(n.mul(x, float(node.get("alpha", 0.2))), float(node.get("beta", 0.5)))
    return n.smaller(n.larger(line, 0.0), 1.0)


def _clip(t: Translation, node: Node) -> None:
    x = t.live(node)
    n, tensor = Numbers(t, x.tensor), x.tensor
    if node.has(1):
        tensor = n.larger(tensor, float(t.numbers(node, 1)))
    if node.has(2):
        tensor = n.smaller(tensor, float(t.numbers(node, 2)))
    t.set(node.outputs[0], tensor, x.order)


def _with_options(code: str, options: str, fields: Callable[[Node], dict[str, Any]]) -> Translator:
    def translate(t: Translation, node: Node) -> None:
        x = t.live(node)
        made = t.draft.add(code, [x.tensor], t.draft.shape(x.tensor), options, **fields(node))
        t.set(node.outputs[0], made, x.order)

    return translate


def _elu(t: Translation, node: Node) -> None:
    if node.get("alpha", 1.0) != 1.0:
        raise node.refuse("its alpha is not 1")
    x = t.live(node)
    t.set(node.outputs[0], t.draft.add("ELU", [x.tensor], t.draft.shape(x.tensor)), x.order)


def _same(t: Translation, node: Node) -> None:
    """Identity, and casts between floating-point types: a `.tflite` computes in float32."""
    x = t.live(node)
    if node.operator == "Cast" and node.get("to", 1) not in (1, 10, 11, 16):
        raise node.refuse("it makes other than floating-point numbers of an input")
    t.set(node.outputs[0], x.tensor, x.order)


def _where(t: Translation, node: Node) -> None:
    """Choose by a constant mask: `a m + b (1 - m)` would turn infinities into NaN, so the operator itself."""
    condition = t.value(node.inputs[0])
    if not isinstance(condition, Constant):
        raise node.refuse("its condition depends on the input")
    shape = t.shape(node.outputs[0])
    order = t.order_for(node.inputs[1:], len(shape))
    mask = np.broadcast_to(condition.array, shape).transpose(order)
    operands = [t.draft.constant(mask), *(t.aligned(name, order) for name in node.inputs[1:])]
    t.set(node.outputs[0], t.draft.add("SELECT_V2", operands, t.physical(shape, order), "SelectV2Options"), order)


def _table(names: Sequence[str], translator: Translator) -> dict[str, Translator]:
    return dict.fromkeys(names, translator)


ARITHMETIC: dict[str, Translator] = {
    **_table(list(UNARY), _unary),
    **_table(list(BINARY), _binary),
    **_table(list(REDUCTIONS), _reduce),
    **_table(["Softmax", "LogSoftmax"], _softmax),
    **_table(["Identity", "Cast", "Dropout"], _same),
    "Erf": _elementwise(_erf),
    "Softplus": _elementwise(_softplus),
    "HardSigmoid": _elementwise(_hard_sigmoid),
    "Reciprocal": _elementwise(lambda n, x, _: n.div(1.0, x)),
    "Clip": _clip,
    "Elu": _elu,
    "Gelu": _with_options(
        "GELU", "GeluOptions", lambda node: {"Approximate": node.get("approximate", "none") != "none"}
    ),
    "LeakyRelu": _with_options(
        "LEAKY_RELU", "LeakyReluOptions", lambda node: {"Alpha": float(node.get("alpha", 0.01))}
    ),
    "Where": _where,
}
"""ONNX operators of this kind, and how each is written."""
