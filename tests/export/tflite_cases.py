"""Operators as lines of ONNX's text form, and what they need: the cases of `test_tflite_operators`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """Lines that make y of x (B, T, M), what they take, and the sizes."""

    lines: str
    tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    frames: int = 6
    mels: int = 4
    opset: int = 18
    tolerance: float = 2e-6
    single: bool = False
    """Whether the graph itself takes one sample only."""


def ints(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, np.int64)


PLAIN = """Abs Ceil Cos Elu Erf Exp Floor HardSwish Identity LeakyRelu Neg Relu Round Sigmoid Sign Sin Softplus Tanh
HardSigmoid"""
SQUARE = {"two": np.array(2, np.float32), "half": np.array(0.5, np.float32), "one": np.array(1, np.float32)}
TURNED, TIMED = "t = Transpose<perm=[0,2,1]>(x)\n ", "s = Transpose<perm=[1,0,2]>(x)\n "
IMAGE = TURNED + "u = Unsqueeze(t, axis1)\n"
AXES = {"axis1": ints(1), "axis2": ints(2), "axis0": ints(0)}
PAIR = np.ones(2, np.float32)
CONSTANT_KERNEL = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 4, 3)
GRU_TORCH = "".join(f"{n}_r, {n}_z, {n}_n = Split<axis=0, num_outputs=3>({n})\n" for n in ("wi", "wh", "bi", "bh"))
GRU_TORCH += "w0 = Concat<axis=0>(wi_z, wi_r, wi_n)\n r0 = Concat<axis=0>(wh_z, wh_r, wh_n)\n"
GRU_TORCH += "b0 = Concat<axis=0>(bi_z, bi_r, bi_n, bh_z, bh_r, bh_n)\n"
GRU_TORCH += "".join(f"{n} = Unsqueeze({n}0, axis0)\n" for n in "wrb") + TIMED
GRU_TENSORS = {"wi": (9, 4), "wh": (9, 3), "bi": (9,), "bh": (9,)}
LSTM_TENSORS = {"w": (1, 12, 4), "r": (1, 12, 3), "b": (1, 24)}
BOTH = {"w": (2, 9, 4), "r": (2, 9, 3), "b": (2, 18)}

CASES: dict[str, Case] = {
    **{name: Case(f"y = {name}(x)") for name in PLAIN.split()},
    "Gelu": Case("y = Gelu(x)", opset=20),
    "Gelu by tanh": Case('y = Gelu<approximate="tanh">(x)', opset=20, tolerance=5e-6),
    "GELU as PyTorch exports it": Case(
        "a = Div(x, root)\n e = Erf(a)\n p = Add(e, one)\n m = Mul(x, p)\n y = Mul(half, m)",
        constants=SQUARE | {"root": np.array(2**0.5, np.float32)},
    ),
    "SiLU": Case("s = Sigmoid(x)\n y = Mul(x, s)"),
    "Log of squares": Case("s = Mul(x, x)\n p = Add(s, one)\n y = Log(p)", constants=SQUARE),
    "Sqrt, Reciprocal": Case("s = Mul(x, x)\n p = Add(s, one)\n q = Sqrt(p)\n y = Reciprocal(q)", constants=SQUARE),
    "Pow": Case("y = Pow(x, two)", constants=SQUARE),
    "Cast": Case("y = Cast<to=1>(x)"),
    "Dropout": Case("y = Dropout(x)"),
    "Clip": Case("y = Clip(x, low, high)", constants={"low": np.float32(-0.5), "high": np.float32(0.25)}),
    "Clip on one side": Case("y = Clip(x, low)", constants={"low": np.float32(-0.5)}),
    "Sub, Div, Max, Min": Case(
        "a = Sub(v, x)\n b = Div(a, two)\n c = Max(b, x)\n y = Min(c, one)", {"v": (4,)}, SQUARE
    ),
    "broadcast over a transposed value": Case(
        TURNED + "a = Add(t, v)\n y = Mul(c, a)", {"v": (6,)}, {"c": np.arange(4, dtype=np.float32).reshape(4, 1)}
    ),
    "a transposed and a plain value": Case(TURNED + "r = Relu(t)\n b = Transpose<perm=[0,2,1]>(r)\n y = Sub(x, b)"),
    "a value of lower rank": Case(
        TURNED + "m = ReduceMean<keepdims=0>(t, b)\n y = Add(t, m)", constants={"b": ints(0, 1)}, single=True
    ),
    "Where": Case("y = Where(mask, x, two)", constants={**SQUARE, "mask": np.eye(6, 4, dtype=bool)}),
    "ReduceMean": Case("y = ReduceMean<keepdims=0>(x, axis1)", constants=AXES),
    "ReduceMean by attribute": Case("y = ReduceMean<axes=[1], keepdims=0>(x)", opset=17),
    "ReduceSum, kept": Case(TURNED + "y = ReduceSum(t, axis2)", constants=AXES),
    "ReduceMax, dropped in the middle": Case(TURNED + "y = ReduceMax<keepdims=0>(t, axis1)", constants=AXES),
    "ReduceMin": Case("y = ReduceMin(x, axis2)", constants=AXES),
    "Softmax": Case("y = Softmax(x)"),
    "Softmax in the middle": Case("y = Softmax<axis=1>(x)"),
    "LogSoftmax": Case("y = LogSoftmax<axis=2>(x)"),
    "Transpose": Case("y = Transpose<perm=[0,2,1]>(x)"),
    "Reshape": Case("y = Reshape(x, s)", constants={"s": ints(0, 2, 3, -1)}),
    "Flatten": Case(TURNED + "y = Flatten(t)"),
    "Squeeze, Unsqueeze": Case(
        "a = Unsqueeze(x, axis2)\n b = Unsqueeze(a, axis1)\n y = Squeeze(b, axis1)", constants=AXES
    ),
    "Unsqueeze of a transposed value": Case(TURNED + "y = Unsqueeze(t, axis2)", constants=AXES),
    "Concat": Case("t = Neg(x)\n y = Concat<axis=1>(x, t)"),
    "Concat with weights": Case("y = Concat<axis=1>(v, x)", {"v": (1, 2, 4)}, single=True),
    "Split": Case("a, b = Split<axis=1, num_outputs=2>(x)\n y = Sub(a, b)"),
    "Split of a transposed value": Case(
        TURNED + "a, b = Split<axis=1>(t, sizes2)\n c = ReduceMean(a, axis1)\n y = Mul(c, b)",
        constants={**AXES, "sizes2": ints(1, 3)},
    ),
    "Slice": Case("y = Slice(x, s, e, a)", constants={"s": ints(1, 1), "e": ints(5, 100), "a": ints(1, 2)}),
    "Slice with steps": Case(
        "y = Slice(x, s, e, a, k)", constants={"s": ints(0, 1), "e": ints(6, 4), "a": ints(1, 2), "k": ints(2, 2)}
    ),
    "Slice backwards": Case(
        "y = Slice(x, s, e, a, k)", constants={"s": ints(-1), "e": ints(-(1 << 60)), "a": ints(1), "k": ints(-1)}
    ),
    "Gather one": Case("y = Gather<axis=1>(x, i)", constants={"i": np.array(-1)}),
    "Gather some": Case(TURNED + "y = Gather<axis=2>(t, i)", constants={"i": ints(4, 0, 4)}),
    "Pad": Case("y = Pad(x, p)", constants={"p": ints(0, 1, 0, 0, 0, 2)}),
    "Pad with a number": Case("y = Pad(x, p, two)", constants={"p": ints(0, 1, 0, 0, 0, 2), **SQUARE}),
    "Pad some axes": Case("y = Pad(x, p, two, axis1)", constants={"p": ints(1, 2), **SQUARE, **AXES}),
    "Expand": Case("u = Unsqueeze(x, axis1)\n y = Expand(u, s)", constants={**AXES, "s": ints(1, 3, 6, 4)}),
    "Tile": Case("y = Tile(x, s)", constants={"s": ints(1, 2, 3)}),
    "Linear as Gemm": Case("f = Flatten(x)\n y = Gemm<transB=1>(f, w, b)", {"w": (5, 24), "b": (5,)}),
    "Gemm of a matrix as it is": Case("f = Flatten(x)\n y = Gemm(f, w)", {"w": (24, 5)}),
    "Linear as MatMul": Case(
        "t = Transpose<perm=[1,0]>(w)\n m = MatMul(x, t)\n y = Add(m, b)", {"w": (5, 4), "b": (5,)}
    ),
    "MatMul of two values": Case(TURNED + "y = MatMul(x, t)"),
    "MatMul with a constant": Case("y = MatMul(x, c)", constants={"c": np.eye(4, 3, dtype=np.float32)}),
    "MatMul from the left": Case("y = MatMul(w, x)", {"w": (3, 6)}),
    "attention with one matrix for all": Case(
        """
        a = Transpose<perm=[1,0]>(w)
        p = MatMul(x, a)
        q, k, v = Split<axis=2, num_outputs=3>(p)
        q4 = Reshape(q, heads)
        k4 = Reshape(k, heads)
        v4 = Reshape(v, heads)
        qh = Transpose<perm=[0,2,1,3]>(q4)
        kh = Transpose<perm=[0,2,3,1]>(k4)
        vh = Transpose<perm=[0,2,1,3]>(v4)
        s = MatMul(qh, kh)
        z = Softmax(s)
        o = MatMul(z, vh)
        u = Transpose<perm=[0,2,1,3]>(o)
        y = Reshape(u, joined)
        """,
        {"w": (12, 4)},
        {"heads": ints(0, 6, 2, 2), "joined": ints(0, 6, 4)},
    ),
    "Conv over time": Case(TURNED + "c = Conv<pads=[1,1]>(t, w, b)\n y = Relu(c)", {"w": (5, 4, 3), "b": (5,)}),
    "Conv of two readers": Case(TURNED + "c = Conv<pads=[1,1]>(t, w)\n r = Relu(c)\n y = Add(c, r)", {"w": (5, 4, 3)}),
    "Conv of width 1": Case(TURNED + "y = Conv(t, w, b)", {"w": (5, 4, 1), "b": (5,)}),
    "Conv with stride and dilation": Case(
        TURNED + "y = Conv<pads=[3,1], strides=[2], dilations=[2]>(t, w, b)", {"w": (5, 4, 3), "b": (5,)}, frames=17
    ),
    "Conv in groups": Case(TURNED + "y = Conv<pads=[1,1], group=2>(t, w, b)", {"w": (6, 2, 3), "b": (6,)}),
    "Conv of depth": Case(TURNED + "y = Conv<pads=[1,1], group=4>(t, w, b)", {"w": (8, 1, 3), "b": (8,)}),
    "Conv with a constant kernel": Case(TURNED + "y = Conv(t, k)", constants={"k": CONSTANT_KERNEL}),
    "Conv with a kernel scaled in the graph": Case(
        TURNED + "s = Mul(w, two)\n y = Conv(t, s)", {"w": (5, 4, 3)}, SQUARE
    ),
    "Conv of one plane": Case(
        IMAGE + "y = Conv<pads=[1,1,1,1], strides=[2,2]>(u, w, b)", {"w": (3, 1, 3, 3), "b": (3,)}, AXES, 9, 8
    ),
    "Conv of images": Case(
        IMAGE + "c = Conv(u, v)\n d = Relu(c)\n y = Conv<pads=[0,2,1,0], strides=[1,2], dilations=[2,1]>(d, w, b)",
        {"v": (4, 1, 3, 3), "w": (3, 4, 3, 2), "b": (3,)},
        AXES,
        9,
        8,
    ),
    "Conv of depth over images": Case(
        IMAGE + 'c = Conv(u, v)\n y = Conv<auto_pad="SAME_UPPER", strides=[2,2], group=4>(c, w)',
        {"v": (4, 1, 1, 1), "w": (4, 1, 3, 3)},
        AXES,
        9,
        8,
    ),
    "MaxPool": Case(TURNED + "y = MaxPool<kernel_shape=[2], strides=[2]>(t)", frames=7),
    "MaxPool, padded unevenly": Case(
        IMAGE + "y = MaxPool<kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1]>(u)", constants=AXES, frames=9, mels=8
    ),
    "AveragePool": Case(
        IMAGE + "y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(u)", {}, AXES, 9, 9
    ),
    "AveragePool that counts its padding": Case(
        IMAGE + "y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(u)", constants=AXES
    ),
    "GlobalAveragePool": Case(TURNED + "y = GlobalAveragePool(t)"),
    "GlobalMaxPool": Case(TURNED + "y = GlobalMaxPool(t)"),
    "LayerNormalization": Case("y = LayerNormalization<axis=-1>(x, s, b)", {"s": (4,), "b": (4,)}, tolerance=1e-5),
    "LayerNormalization of two axes": Case("y = LayerNormalization<axis=1>(x, s)", {"s": (6, 4)}, tolerance=1e-5),
    "InstanceNormalization": Case(
        TURNED + "y = InstanceNormalization(t, s, b)", {"s": (4,), "b": (4,)}, tolerance=1e-5
    ),
    "GroupNorm as PyTorch exports it": Case(
        """
        g = Reshape(x, groups)
        n = InstanceNormalization(g, ones, zeros)
        p = Reshape(n, whole)
        m = Mul(p, s)
        y = Add(m, b)
        """,
        {"s": (6, 1), "b": (6, 1)},
        {"groups": ints(0, 2, -1), "whole": ints(0, 6, 4), "ones": PAIR, "zeros": PAIR * 0},
        tolerance=1e-5,
    ),
    "BatchNormalization": Case(
        TURNED + "y = BatchNormalization(t, s, b, mean, var)",
        {"s": (4,), "b": (4,)},
        {"mean": np.arange(4, dtype=np.float32), "var": np.arange(1, 5, dtype=np.float32)},
    ),
    "GRU, last state": Case(
        GRU_TORCH + "q, h = GRU<hidden_size=3, linear_before_reset=1>(s, w, r, b)\n y = Transpose<perm=[1,0,2]>(h)",
        GRU_TENSORS,
        AXES,
    ),
    "GRU, sequence": Case(
        GRU_TORCH + "q, h = GRU<hidden_size=3, linear_before_reset=1>(s, w, r, b)\n y = Transpose<perm=[2,0,1,3]>(q)",
        GRU_TENSORS,
        AXES,
    ),
    "GRU without biases": Case(
        TIMED + "q, h = GRU<hidden_size=3, linear_before_reset=1>(s, w, r)\ny = Transpose<perm=[1,0,2]>(h)",
        {"w": (1, 9, 4), "r": (1, 9, 3)},
    ),
    "GRU in both directions": Case(
        TIMED + 'q, h = GRU<hidden_size=3, linear_before_reset=1, direction="bidirectional">(s, w, r, b)\n'
        "u = Transpose<perm=[2,0,1,3]>(q)\n v = Transpose<perm=[1,0,2]>(h)\n a = Flatten(u)\n c = Flatten(v)\n"
        "y = Concat<axis=1>(a, c)",
        BOTH,
    ),
    "GRU backwards": Case(
        TIMED + 'q, h = GRU<hidden_size=3, linear_before_reset=1, direction="reverse">(s, w, r, b)\n'
        "y = Transpose<perm=[2,0,1,3]>(q)",
        {"w": (1, 9, 4), "r": (1, 9, 3), "b": (1, 18)},
    ),
    "LSTM": Case(
        TIMED + "q, h, c = LSTM<hidden_size=3>(s, w, r, b)\n"
        "u = Transpose<perm=[1,0,2]>(h)\n v = Transpose<perm=[1,0,2]>(c)\n y = Concat<axis=2>(u, v)",
        LSTM_TENSORS,
    ),
    "LSTM, sequence in both directions": Case(
        's = Transpose<perm=[1,0,2]>(x)\n q = LSTM<hidden_size=3, direction="bidirectional">(s, w, r)\n'
        "y = Transpose<perm=[2,0,1,3]>(q)",
        {"w": (2, 12, 4), "r": (2, 12, 3)},
    ),
    "weights cut, reversed, gathered": Case(
        """
        a = Slice(w, one1, three, axis0)
        b = Slice(w, last, before, axis0, back)
        c = Gather<axis=1>(w, few)
        d = Concat<axis=0>(a, b)
        e = MatMul(x, few_w)
        f = ReduceSum(d, axis1)
        g = ReduceSum(c, axis1)
        h = Concat<axis=0>(f, g)
        i = Transpose<perm=[1,0]>(h)
        y = Add(e, i)
        """,
        {"w": (5, 4), "few_w": (4, 12)},
        AXES
        | {"one1": ints(1), "three": ints(3), "last": ints(-1), "before": ints(-(1 << 60)), "back": ints(-1)}
        | {"few": ints(3, 1)},
    ),
}

REFUSED: dict[str, tuple[str, Case]] = {
    "unknown operator": (r"The operator Sinh \(y\) has no translation", Case("y = Sinh(x)")),
    "GRU of another kind": (
        r"GRU \(q\).*linear_before_reset",
        Case(
            TIMED + "q, h = GRU<hidden_size=3>(s, w, r)\n y = Transpose<perm=[1,0,2]>(h)",
            {"w": (1, 9, 4), "r": (1, 9, 3)},
        ),
    ),
    "reflected padding": (
        r"Pad \(y\).*constant",
        Case('y = Pad<mode="reflect">(x, p)', constants={"p": ints(0, 1, 0, 0, 1, 0)}),
    ),
    "average with uneven padding": (
        r"AveragePool \(y\).*uneven",
        Case(TURNED + "y = AveragePool<kernel_shape=[3], pads=[2,0]>(t)"),
    ),
    "data-dependent choice": (r"Greater|Where", Case("m = Greater(x, two)\n y = Where(m, x, two)", constants=SQUARE)),
    "vectors": (r"MatMul.*vector", Case("y = MatMul(x, w)", {"w": (4,)})),
}
