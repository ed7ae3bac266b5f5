"""What a model mistook for a keyword, and drawing from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FLOOR = 0.02
"""Posterior that every window has at least when it is drawn: what was never mistaken is still met."""


@dataclass(frozen=True, eq=False)
class Mined:
    """How much each sound is taken for a keyword: the largest posterior of one, and where."""

    others: NDArray[np.float32]
    """(N,) by other word."""
    alike: NDArray[np.float32]
    """(N,) by synthetic word that sounds like a keyword."""
    running: NDArray[np.float32]
    """(W,) by window of running speech, of which `running_sound` and `running_frame` say where it begins."""
    running_sound: NDArray[np.int64]
    running_frame: NDArray[np.int64]
    noise: NDArray[np.float32]
    """(V,) the same of noise."""
    noise_sound: NDArray[np.int64]
    noise_frame: NDArray[np.int64]

    def arrays(self) -> dict[str, NDArray[np.float32] | NDArray[np.int64]]:
        """All of it by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def drawn(scores: NDArray[np.float32], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw so many places, each as often as its score says."""
    weights = np.cumsum(np.maximum(scores, FLOOR), dtype=np.float64)
    places: NDArray[np.int64] = np.minimum(
        np.searchsorted(weights, rng.random(count) * weights[-1], side="right"), len(scores) - 1
    )
    return places
