"""Optimizers as ONNX operators on a model's three parts: SGD with momentum, AdamW and Adam."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.packs.graph_interface import PARTS, SCALARS, SLOTS
from auricle.wire.gradient_terms import TERMS, Parts, Step, Term
from auricle_export.compiler.builder import GraphBuilder, Shape


def update(
    b: GraphBuilder, role: str, optimizer: str, terms: Sequence[Term], grads: Parts, shapes: Sequence[Shape]
) -> None:
    """Add a model's optimizer step: its inputs, and the outputs `new/...` with its new weights and state."""
    weights = _vector(b, role, shapes)
    hyper = {name: b.input(f"{role}.{name}") for name in SCALARS[optimizer]}
    state = [_vector(b, f"{role}.{slot}", shapes) for slot in SLOTS[optimizer]]
    vectors = {v: _vector(b, f"{role}.{v}", shapes) for term in terms for v in TERMS[term].vectors}
    for term in (term for term in TERMS if term in terms):
        scalars = {name: b.input(f"{role}.{name}") for name in TERMS[term].scalars}
        grads = TERMS[term].formula(b, Step(weights, grads, scalars, vectors))
    grads = _clip(b, grads, hyper["clip"])
    step = _sgd if optimizer == "sgd" else _adam
    new = step(b, weights, grads, state, hyper)
    for vector, before, after in zip(
        [role, *(f"{role}.{s}" for s in SLOTS[optimizer])], [weights, *state], new, strict=True
    ):
        if "freeze" in terms:
            kept = [b("Cast", k, to=9) for k in vectors["keep"]]
            after = [b("Where", k, x, y) for k, x, y in zip(kept, after, before, strict=True)]
        for part, value, shape in zip(PARTS, after, shapes, strict=True):
            b.output(f"new/{vector}/{part}", value, shape)


def _vector(b: GraphBuilder, name: str, shapes: Sequence[Shape]) -> Parts:
    return [b.input(f"{name}/{part}", shape) for part, shape in zip(PARTS, shapes, strict=True)]


def _clip(b: GraphBuilder, grads: Parts, clip: str) -> Parts:
    """Scale gradients so that their common norm is at most `clip` (infinity: as they are)."""
    norm = b("Sqrt", b.total([b("ReduceSumSquare", g, keepdims=0) for g in grads]))
    scale = b("Min", b("Div", clip, b("Add", norm, 1e-12)), 1.0)
    return [b("Mul", g, scale) for g in grads]


def _sgd(b: GraphBuilder, weights: Parts, grads: Parts, state: list[Parts], hyper: dict[str, str]) -> list[Parts]:
    """m <- momentum m + g + decay w; w <- w - rate m."""
    moved = [
        b.total([b("Mul", hyper["momentum"], m), g, b("Mul", hyper["decay"], w)])
        for m, g, w in zip(state[0], grads, weights, strict=True)
    ]
    return [[b("Sub", w, b("Mul", hyper["rate"], m)) for w, m in zip(weights, moved, strict=True)], moved]


def _adam(b: GraphBuilder, weights: Parts, grads: Parts, state: list[Parts], hyper: dict[str, str]) -> list[Parts]:
    """Adam with bias correction; `l2` adds to the gradient (Adam), `decay` shrinks the weights (AdamW)."""
    b1, b2, rate = hyper["beta1"], hyper["beta2"], hyper["rate"]
    rest1, rest2 = b("Sub", 1.0, b1), b("Sub", 1.0, b2)
    size = b("Div", rate, b("Sub", 1.0, b("Pow", b1, hyper["step"])))
    root = b("Sqrt", b("Sub", 1.0, b("Pow", b2, hyper["step"])))
    keep = b("Sub", 1.0, b("Mul", rate, hyper["decay"]))
    new: list[Parts] = [[], [], []]
    for w, g, m, v in zip(weights, grads, *state, strict=True):
        g = b("Add", g, b("Mul", hyper["l2"], w))
        first = b("Add", b("Mul", b1, m), b("Mul", rest1, g))
        second = b("Add", b("Mul", b2, v), b("Mul", rest2, b("Mul", g, g)))
        depth = b("Add", b("Div", b("Sqrt", second), root), hyper["epsilon"])
        moved = b("Sub", b("Mul", keep, w), b("Div", b("Mul", size, first), depth))
        for found, value in zip(new, (moved, first, second), strict=True):
            found.append(value)
    return new
