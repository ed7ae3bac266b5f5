"""What a model mistook for a keyword, and drawing from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

FLOOR_POSTERIOR = 0.02
"""Posterior that every window has at least when it is drawn: what was never mistaken is still met."""
_LONG = ("running", "together", "noise")


@dataclass(frozen=True, eq=False)
class MinedWindows:
    """Windows of long sounds."""

    scores: NDArray[np.float32]
    """(W,) the largest posterior of a keyword in each."""
    sounds: NDArray[np.int64]
    """(W,) which sound it is of."""
    frames: NDArray[np.int64]
    """(W,) where in that sound it begins."""


_PARTS = tuple(part.name for part in fields(MinedWindows))


@dataclass(frozen=True, eq=False)
class Mined:
    """How much each sound is taken for a keyword: the largest posterior of one, and where."""

    others: NDArray[np.float32]
    """(N,) by other word."""
    alike: NDArray[np.float32]
    """(N,) by synthetic word that sounds like a keyword."""
    running: MinedWindows
    together: MinedWindows
    """Of other words, one straight after the other; no place where there are no such rows."""
    noise: MinedWindows

    def arrays(self) -> dict[str, NDArray[np.float32] | NDArray[np.int64]]:
        """All of it by name, as `from_arrays` reads it."""
        long = {name: getattr(self, name) for name in _LONG}
        return {"others": self.others, "alike": self.alike} | {
            f"{name}_{part}": getattr(places, part) for name, places in long.items() for part in _PARTS
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.float32]]) -> Mined:
        """Put it together again.

        Raises
        ------
        KeyError
            One is missing.
        """
        long = {
            name: MinedWindows(
                arrays[f"{name}_scores"],
                arrays[f"{name}_sounds"].astype(np.int64),
                arrays[f"{name}_frames"].astype(np.int64),
            )
            for name in _LONG
        }
        return cls(others=arrays["others"], alike=arrays["alike"], **long)


def draw(scores: NDArray[np.float32], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw so many places, each as often as its score says."""
    weights = np.cumsum(np.maximum(scores, FLOOR_POSTERIOR), dtype=np.float64)
    places: NDArray[np.int64] = np.minimum(
        np.searchsorted(weights, rng.random(count) * weights[-1], side="right"), len(scores) - 1
    )
    return places
