"""The numbers of a round that operators see: tables on a terminal and on the page, and the round's own page.

Each is a field of a round's answer of the same name; see CONTRIBUTING for how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from auricle.wire.plan import InferenceLoss

Place = Literal["terminal", "table", "round"]
"""The table of `auricle cloud rounds list`, the page's table of rounds, and the page of one."""
EVERYWHERE: Sequence[Place] = ("terminal", "table", "round")
LOSS_UNITS: Mapping[InferenceLoss, str] = {"ce": "nats", "mse": "Σ (p - y)²", "l1": "Σ |p - y|"}
"""Of what devices say of a model: of posteriors p and one-hot labels y it is a sum over labels, mean of the clips."""


@dataclass(frozen=True)
class RoundFigure:
    """One of them."""

    name: str
    """Of the field."""
    head: str
    """Of a column on the page."""
    words: str
    """Before it on the round's own page."""
    unit: Literal["count", "loss", "share", "number"]
    """Of a loss the round says in what, `LOSS_UNITS`."""
    shown: Sequence[Place] = EVERYWHERE
    minor: bool = False
    """Whether it is left out where there is little room."""


FIGURES = (
    RoundFigure("samples", "Samples", "Training samples", "count", ("table", "round"), minor=True),
    RoundFigure("loss", "Loss", "Its mean loss on devices", "loss"),
    RoundFigure("plugin_accuracy", "Accuracy", "Its accuracy on held-out clips", "share", minor=True),
    RoundFigure("personal_accuracy", "Own models", "Accuracy of devices' own models", "share", ("round",), minor=True),
)
"""In the order of columns."""


def figures_in(place: Place) -> tuple[RoundFigure, ...]:
    """Those that are shown there."""
    return tuple(figure for figure in FIGURES if place in figure.shown)
