"""Optional terms of the gradient in a step of training, each declared once.

A step graph of a pack takes a term's scalars and vectors, the compiler writes its formula into the graph, and a device
that a plan asks for it fills them in: all of them read what stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

Term = Literal["drift", "freeze"]
Fill = Literal["zeros", "ones", "received"]
"""What a vector (P,) holds: zeros or ones, where it is not given, or the weights that training starts from."""
Parts = list[str]
"""Names of the values of a vector's parts."""


class Operators(Protocol):
    """Writes ONNX operators."""

    def __call__(self, operator: str, *inputs: str | float) -> str:
        """Add an operator; the name of what it gives."""

    def total(self, values: list[str]) -> str:
        """Add a sum; its name."""


@dataclass(frozen=True)
class Step:
    """What a formula is written with: names of values in a graph."""

    weights: Parts
    gradient: Parts
    """What the loss and the terms before this one give."""
    scalars: Mapping[str, str]
    vectors: Mapping[str, Parts]


@dataclass(frozen=True)
class GradientTerm:
    """A term: its inputs in a step graph, what fills them, and what it makes of the gradient."""

    scalars: Mapping[str, str]
    """Inputs `role.name`, each with the field of `Plan` that it is; a plan asks for the term where one is not 0."""
    vectors: Mapping[str, Fill]
    """Inputs `role.name/part`."""
    formula: Callable[[Operators, Step], Parts]

    @property
    def weights(self) -> tuple[str, ...]:
        """Its vectors that are weights of the model, as an anchor is."""
        return tuple(name for name, fill in self.vectors.items() if fill == "received")


def _drift(b: Operators, step: Step) -> Parts:
    """G + mu (w - anchor) + linear."""
    anchor, linear, mu = step.vectors["anchor"], step.vectors["linear"], step.scalars["mu"]
    pulls = [b("Mul", mu, b("Sub", w, a)) for w, a in zip(step.weights, anchor, strict=True)]
    return [b.total([g, p, q]) for g, p, q in zip(step.gradient, pulls, linear, strict=True)]


def _freeze(b: Operators, step: Step) -> Parts:
    """G keep; the optimizer multiplies the change by it, too."""
    return [b("Mul", g, k) for g, k in zip(step.gradient, step.vectors["keep"], strict=True)]


TERMS: dict[Term, GradientTerm] = {
    "drift": GradientTerm({"mu": "mu"}, {"anchor": "received", "linear": "zeros"}, _drift),
    "freeze": GradientTerm({}, {"keep": "ones"}, _freeze),
}
"""In the order in which they are applied.

`drift` adds mu (w - anchor) + linear to the gradient: FedProx, FedDyn, SCAFFOLD, FedDC and Ditto are choices of these
two. `freeze` multiplies every gradient and every change by `keep`, 0 or 1 for each weight.
"""
