"""What a round costs a coordinator and its broker: sums of constants times what there is of devices, updates and bytes.

Every figure is a line: so much a round, an invitation, an update, a byte of an update, and so on. The constants are in
`docs/capacity.json`, as `bench/capacity.py --measure` wrote them; nothing here measures, or knows a machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from auricle.wire.frames import CHUNK

Line = Mapping[str, float]
"""Constants by term; the terms are those of `Load.terms`."""

CODEC_BYTES = {"float32": 4, "float16": 2, "int8": 1}
"""Bytes that a weight of an update travels in; int8's scales, four bytes a tensor, are left out."""


@dataclass(frozen=True)
class Load:
    """A fleet and a round of it."""

    devices: int
    """Connected and registered."""
    updates: int
    """Counted in a round."""
    weights: int = 28_067
    """P, of the plug-in."""
    codec: str = "float32"
    invited: int | None = None
    """To a round; None: as many as are counted."""

    @property
    def body(self) -> int:
        """Bytes of an update's weights."""
        return self.weights * CODEC_BYTES[self.codec]

    @property
    def parts(self) -> int:
        """Messages that an update travels in."""
        return parts_of(self.body)

    @property
    def terms(self) -> dict[str, float]:
        """How much there is of all that a line has a constant for."""
        invited = self.updates if self.invited is None else self.invited
        return {
            "once": 1,
            "device": self.devices,
            "invited": invited,
            "update": self.updates,
            "part": self.updates * self.parts,
            "byte": self.updates * self.body,
            "number": self.updates * self.weights,
            "pair number": self.updates**2 * self.weights,
            "pair": self.updates**2,
        }


def parts_of(length: int) -> int:
    """Messages that so many bytes travel in."""
    return max(1, math.ceil(length / CHUNK))


def value(line: Line, load: Load) -> float:
    """A figure of a load: the sum of a line's constants, each times its term."""
    terms = load.terms
    return sum(constant * terms[name] for name, constant in line.items())


def fit(names: Sequence[str], terms: Sequence[Mapping[str, float]], figures: Sequence[float]) -> Line:
    """The constants, none below 0, whose line has the least relative squared errors.

    Parameters
    ----------
    names
        Terms of the line.
    terms, figures
        How much there was of each term, and what was measured of it, above 0.
    """
    rows = np.array([[each[name] for name in names] for each in terms])
    constants, _ = nnls(rows / np.array(figures, float)[:, None], np.ones(len(terms)))
    return dict(zip(names, (float(f"{constant:.4g}") for constant in constants), strict=True))


def share_of_error(predicted: float, measured: float) -> float:
    """By how much of the measured value a prediction is off."""
    return predicted / measured - 1
