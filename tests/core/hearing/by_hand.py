"""Posteriors and words as short as a test works them out by hand."""

from __future__ import annotations

import numpy as np

from auricle.hearing.scenes import Spoken


def peaks_of(labels: tuple[str, ...], hops: int, at: dict[int, tuple[str, float]]) -> np.ndarray:
    """Posteriors of 0 but for single peaks."""
    rows = np.zeros((hops, len(labels)), np.float32)
    for hop, (word, value) in at.items():
        rows[hop, labels.index(word)] = value
    return rows


def spoken(word: str, start: float, end: float, kind: str = "noise") -> Spoken:
    """In seconds."""
    return Spoken(word, round(start * 16_000), round(end * 16_000), "anna", kind, 10.0)
