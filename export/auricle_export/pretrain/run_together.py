"""Other words said one straight after the other: what is most often taken for a keyword that nobody said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.speech.features import Energies
from auricle_export.pretrain.sounds import Sounds

SECONDS = 3_600
"""Length of all rows of words together."""
ROW = 1_500
"""Frames of a row at least."""
GAP = 11
"""Frames between two words: fewer than this."""
EDGE = 3
"""Frames before and after a word that go with it."""
LOUDER = 4.0
"""Decibels that a word may be louder or quieter than those beside it."""


def run_together(words: Sequence[Sounds], rng: np.random.Generator, frames: int = 100 * SECONDS) -> Sounds:
    """Put single words in rows without the silence around them.

    Parameters
    ----------
    words
        Single words that are no keyword. Each of these is drawn from as often as the others, however large.
    rng
        Draws words, gaps and levels.
    frames
        Length of all rows together at least.
    """
    rows: list[Energies] = []
    levels: list[float] = []
    length = 0
    while length < frames:
        row, level = _row(words, rng)
        rows.append(row)
        levels.append(level)
        length += len(row)
    lengths = np.array([len(row) for row in rows], np.int64)
    silence = np.zeros((1, rows[0].shape[1]), np.float32)
    return Sounds(
        energies=np.concatenate([*rows, silence]),
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        begins=np.zeros(len(rows), np.int64),
        ends=lengths.copy(),
        levels=np.array(levels, np.float32),
        targets=np.full(len(rows), -1),
    )


def _row(words: Sequence[Sounds], rng: np.random.Generator) -> tuple[Energies, float]:
    """Energies (F, mels) of one row, and the mean of its words."""
    parts: list[NDArray[np.float32]] = []
    levels: list[float] = []
    length = 0
    while length < ROW:
        sounds = words[int(rng.integers(len(words)))]
        chosen = int(rng.integers(len(sounds)))
        begin = max(0, int(sounds.begins[chosen]) - EDGE)
        end = min(int(sounds.lengths[chosen]), int(sounds.ends[chosen]) + EDGE)
        first = int(sounds.starts[chosen])
        gain = np.float32(10 ** (rng.uniform(-LOUDER, LOUDER) / 10))
        gap = int(rng.integers(GAP))
        parts.append(sounds.energies[first + begin : first + end] * gain)
        parts.append(np.zeros((gap, sounds.energies.shape[1]), np.float32))
        levels.append(float(sounds.levels[chosen] * gain))
        length += end - begin + gap
    return np.concatenate(parts), float(np.mean(levels))
