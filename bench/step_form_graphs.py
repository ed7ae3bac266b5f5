"""Parts of a step graph in the forms that onnxruntime could be given them: what `bench/step_forms.py` compares.

Sizes are those of the shipped CRNNs: 25 steps of time, batch 16, 64 states, 50 frames of 64 channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from auricle.checks.onnx_reader import read_model
from auricle_export.compiler.builder import GraphBuilder
from auricle_learning.runtimes.exact_squares import with_exact_squares

TIME, BATCH, HIDDEN, FRAMES = 25, 16, 64, 50
ROWS = TIME * BATCH
Form = bytes
"""An ONNX file whose inputs have fixed shapes."""


def squares(length: int) -> dict[str, Form]:
    """The sum of squares of a vector (P,)."""

    def one(form: str) -> Form:
        b = GraphBuilder()
        x = b.input("x", (length,))
        if form == "product":
            total = b("MatMul", x, x)
        elif form == "Mul and ReduceSum":
            total = b("ReduceSum", b("Mul", x, x), b.constant([-1]), keepdims=0)
        else:
            total = b("ReduceSumSquare", x, keepdims=0)
        return _built(b, [(total, ())])

    whole = one("ReduceSumSquare")
    nodes = read_model(whole, "The graph").nodes
    stages = with_exact_squares(whole, nodes, {"x": (length,)})
    return {
        "ReduceSumSquare": whole,
        "Mul, ReduceSum over the last axis": one("Mul and ReduceSum"),
        "MatMul of the vector with itself": one("product"),
        "two stages": stages,
    }


def forward(chains: int) -> dict[str, Form]:
    """GRU recurrences that do not depend on each other, with all gates (chains, T B, H) for the way back."""
    return {
        "step by step": _gru(chains, "apart"),
        "gates r and z in one product": _gru(chains, "gates"),
        "the recurrences stacked": _gru(chains, "stacked"),
        "the operator GRU, gates again": _gru_operator(chains),
    }


def backward(chains: int) -> dict[str, Form]:
    """The way back through the same: dh (T B, H) and the products' gradients (T B, 3 H)."""
    return {"step by step": _walk(chains, False), "the recurrences stacked": _walk(chains, True)}


def relu_gradient() -> dict[str, Form]:
    """The gradient where a ReLU was open, (B, H, frames)."""
    shape = (BATCH, HIDDEN, FRAMES)

    def one(sign: bool) -> Form:
        b = GraphBuilder()
        y, g = b("Relu", b.input("x", shape)), b.input("g", shape)
        mask = b("Sign", y) if sign else b("Cast", b("Greater", y, 0.0), to=1)
        return _built(b, [(b("Mul", g, mask), shape)])

    return {"Greater, Cast, Mul": one(False), "Sign, Mul": one(True)}


def convolution() -> dict[str, Form]:
    """A convolution of 3 frames over (frames, B, H): columns put together and one product, or three products added."""

    def one(together: bool) -> Form:
        b = GraphBuilder()
        x, w = b.input("x", (FRAMES + 2, BATCH, HIDDEN)), b.input("w", (3 * HIDDEN, HIDDEN))
        flat = b.constant([FRAMES * BATCH, -1])
        parts = [
            b("Slice", x, *(b.constant([i]) for i in (k, k + FRAMES, 0)), name=f"slice{together}{k}") for k in range(3)
        ]
        if together:
            value = b("Gemm", b("Reshape", b("Concat", *parts, axis=-1), flat), w, b.input("bias", (HIDDEN,)))
        else:
            value = b.input("bias", (HIDDEN,))
            for part, own in zip(parts, b.many("Split", [w], 3, axis=0, num_outputs=3), strict=True):
                value = b("Gemm", b("Reshape", part, flat), own, value)
        return _built(b, [(value, (FRAMES * BATCH, HIDDEN))])

    return {"columns put together": one(True), "three products": one(False)}


def _built(b: GraphBuilder, outputs: Sequence[tuple[str, Sequence[int]]]) -> Form:
    names = [f"out{number}" for number in range(len(outputs))]
    for name, (value, shape) in zip(names, outputs, strict=True):
        b.output(name, value, shape)
    model: onnx.ModelProto = b.build(list(b.inputs), names)
    content: bytes = model.SerializeToString()
    return content


def _weights(b: GraphBuilder, chain: int) -> tuple[list[str], list[str], list[str]]:
    """The recurrent weights (H, H), the input's weights (H, H) and the biases (H,) of r, z and n."""
    return tuple(
        [b.input(f"{kind}{chain}{gate}", shape) for gate in "rzn"]
        for kind, shape in (("own", (HIDDEN, HIDDEN)), ("in", (HIDDEN, HIDDEN)), ("bias", (HIDDEN,)))
    )  # type: ignore[return-value]


def _split(b: GraphBuilder, value: str, parts: int = TIME, axis: int = 0) -> list[str]:
    return b.many("Split", [value], parts, axis=axis, num_outputs=parts)


def _stack(b: GraphBuilder, values: Sequence[str]) -> str:
    return b("Concat", *(b("Unsqueeze", value, b.constant([0])) for value in values), axis=0)


def _next(b: GraphBuilder, h: str, z: str, n: str) -> str:
    return b("Add", n, b("Mul", z, b("Sub", h, n)))


def _gru(chains: int, form: str) -> Form:
    b = GraphBuilder()
    made = []
    for chain in range(chains):
        x, (own, given, bias) = b.input(f"x{chain}", (ROWS, HIDDEN)), _weights(b, chain)
        own = [b("Transpose", each, perm=[1, 0]) for each in own]
        h, last = b.input(f"h{chain}", (BATCH, HIDDEN)), b.input(f"own_bias{chain}", (HIDDEN,))
        made.append((x, own, given, bias, h, last))
    if form == "stacked":
        return _built(b, _stacked(b, made))
    outputs: list[tuple[str, Sequence[int]]] = []
    for x, own, given, bias, h, last in made:
        found = []
        if form == "gates":
            both = b("Concat", *own[:2], axis=1)
            product = b("Gemm", x, b("Concat", *given[:2], axis=0), b("Concat", *bias[:2], axis=0), transB=1)
            steps = [_split(b, product)]
        else:
            steps = [_split(b, b("Gemm", x, given[i], bias[i], transB=1)) for i in (0, 1)]
        steps.append(_split(b, b("Gemm", x, given[2], bias[2], transB=1)))
        for t in range(TIME):
            if form == "gates":
                r, z = _split(b, b("Sigmoid", b("Gemm", h, both, steps[0][t])), 2, 1)
            else:
                r, z = (b("Sigmoid", b("Gemm", h, own[i], steps[i][t])) for i in (0, 1))
            candidate = b("Gemm", h, own[2], last)
            n = b("Tanh", b("Add", steps[-1][t], b("Mul", r, candidate)))
            h = _next(b, h, z, n)
            found.append((h, r, z, n, candidate))
        outputs += [(b("Concat", *each, axis=0), (ROWS, HIDDEN)) for each in zip(*found, strict=True)]
    return _built(b, outputs)


def _stacked(
    b: GraphBuilder, made: Sequence[tuple[str, list[str], list[str], list[str], str, str]]
) -> list[tuple[str, Sequence[int]]]:
    """Every product of a step over all chains at once, (chains, B, H); stacked before and taken apart after."""
    chains = len(made)
    own = [_stack(b, [each[1][gate] for each in made]) for gate in range(3)]
    shape, rows = b.constant([chains, BATCH, HIDDEN]), b.constant([TIME, BATCH, HIDDEN])
    steps = []
    for gate in range(3):
        products = [b("Gemm", x, given[gate], bias[gate], transB=1) for x, _, given, bias, *_ in made]
        beside = b("Concat", *(b("Reshape", product, rows) for product in products), axis=1)
        steps.append([b("Reshape", part, shape) for part in _split(b, beside)])
    last = b("Unsqueeze", _stack(b, [each[5] for each in made]), b.constant([1]))
    h, found = _stack(b, [each[4] for each in made]), []
    for t in range(TIME):
        r, z = (b("Sigmoid", b("Add", b("MatMul", h, own[i]), steps[i][t])) for i in (0, 1))
        candidate = b("Add", b("MatMul", h, own[2]), last)
        n = b("Tanh", b("Add", steps[2][t], b("Mul", r, candidate)))
        h = _next(b, h, z, n)
        found.append((h, r, z, n, candidate))
    parts = [_split(b, b("Concat", *each, axis=1), chains) for each in zip(*found, strict=True)]
    flat = b.constant([ROWS, HIDDEN])
    return [(b("Reshape", part[chain], flat), (ROWS, HIDDEN)) for chain in range(chains) for part in parts]


def _gru_operator(chains: int) -> Form:
    b = GraphBuilder()
    outputs: list[tuple[str, Sequence[int]]] = []
    for chain in range(chains):
        x, (own, given, bias) = b.input(f"x{chain}", (ROWS, HIDDEN)), _weights(b, chain)
        h, last = b.input(f"h{chain}", (BATCH, HIDDEN)), b.input(f"own_bias{chain}", (HIDDEN,))
        none = b.constant_floats([0.0] * HIDDEN)
        zrn = [_stack(b, [b("Concat", *(each[i] for i in (1, 0, 2)), axis=0)]) for each in (given, own)]
        every = _stack(b, [b("Concat", bias[1], bias[0], bias[2], none, none, last, axis=0)])
        inputs = [b("Reshape", x, b.constant([TIME, BATCH, HIDDEN])), *zrn, every, "", _stack(b, [h])]
        states = b.many("GRU", inputs, 1, hidden_size=HIDDEN, linear_before_reset=1)[0]
        states = b("Reshape", states, b.constant([ROWS, HIDDEN]))
        start = b.constant([0])
        before = b("Concat", h, b("Slice", states, start, b.constant([ROWS - BATCH]), start), axis=0)
        products = [b("Gemm", x, given[i], bias[i], transB=1) for i in range(3)]
        r, z = (b("Sigmoid", b("Gemm", before, own[i], products[i], transB=1)) for i in (0, 1))
        candidate = b("Gemm", before, own[2], last, transB=1)
        n = b("Tanh", b("Add", products[2], b("Mul", r, candidate)))
        outputs += [(value, (ROWS, HIDDEN)) for value in (states, r, z, n, candidate)]
    return _built(b, outputs)


def _walk(chains: int, stacked: bool) -> Form:
    b = GraphBuilder()
    made = [[b.input(f"{name}{chain}", shape) for name, shape in _WALKED.items()] for chain in range(chains)]
    groups = [made] if stacked else [[each] for each in made]
    outputs: list[tuple[str, Sequence[int]]] = []
    for group in groups:
        count = len(group)
        axis = 1 if stacked else 0
        factors, keep = (_beside(b, [each[i] for each in group], width, stacked) for i, width in ((0, 3), (1, 1)))
        weights, dh = ((_stack(b, [e[i] for e in group]) if stacked else group[0][i]) for i in (2, 3))
        states, products = [], []
        for t in range(TIME):
            product = b("Mul", b("Concat", dh, dh, dh, axis=axis + 1), factors[t])
            states.append(dh)
            products.append(product)
            kept = b("Mul", dh, keep[t])
            dh = b("Add", b("MatMul", product, weights), kept) if stacked else b("Gemm", product, weights, kept)
        apart = []
        for each, shape in ((states, (ROWS, HIDDEN)), (products, (ROWS, 3 * HIDDEN)), ([dh], (BATCH, HIDDEN))):
            whole = b("Concat", *each, axis=axis) if len(each) > 1 else each[0]
            parts = [b("Reshape", part, b.constant(shape)) for part in _split(b, whole, count)] if stacked else [whole]
            apart.append([(part, shape) for part in parts])
        outputs += [value for values in zip(*apart, strict=True) for value in values]
    return _built(b, outputs)


_WALKED = {
    "factors": (ROWS, 3 * HIDDEN),
    "keep": (ROWS, HIDDEN),
    "weights": (3 * HIDDEN, HIDDEN),
    "dh": (BATCH, HIDDEN),
}


def _beside(b: GraphBuilder, values: Sequence[str], width: int, stacked: bool) -> list[str]:
    """Each step's share of (T B, width H) of every chain."""
    if not stacked:
        return _split(b, values[0])
    steps, each = b.constant([TIME, BATCH, width * HIDDEN]), b.constant([len(values), BATCH, width * HIDDEN])
    whole = b("Concat", *(b("Reshape", value, steps) for value in values), axis=1)
    return [b("Reshape", part, each) for part in _split(b, whole)]
