"""Hard negatives: what a model takes for a keyword, and other words said one straight after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.rule import keyword_mask
from auricle.speech.features import Energies, LogMel
from auricle_export.pretrain.mined import Mined, MinedWindows
from auricle_export.pretrain.sounds import Sounds
from auricle_export.pretrain.windows import Bank

Recognise = Callable[[NDArray[np.float32]], NDArray[np.float32]]

HOP_FRAMES = 10
"""Frames between two windows that are judged."""
_WINDOWS = 512


def mine(bank: Bank, frontend: LogMel, labels: Sequence[str], recognise: Recognise) -> Mined:
    """Let a model listen to every sound without a keyword."""
    keywords = keyword_mask(labels)

    def worst(sounds: Sounds, frames: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        found = np.zeros(len(chosen), np.float32)
        for start in range(0, len(chosen), _WINDOWS):
            part, first = chosen[start : start + _WINDOWS], frames[start : start + _WINDOWS]
            source = first[:, None] + np.arange(frontend.task.frames)
            inside = (source >= 0) & (source < sounds.lengths[part][:, None])
            rows = np.where(inside, source + sounds.starts[part][:, None], len(sounds.energies) - 1)
            posteriors = recognise(frontend.finish(sounds.energies[rows]))
            found[start : start + _WINDOWS] = posteriors[:, keywords].max(axis=1)
        return found

    def of_words(sounds: Sounds) -> NDArray[np.float32]:
        every = np.arange(len(sounds))
        late = sounds.ends - frontend.task.frames + 5
        return np.maximum(worst(sounds, late, every), worst(sounds, sounds.begins - 20, every))

    def of_streams(sounds: Sounds) -> MinedWindows:
        counts = np.maximum(1, (sounds.lengths - frontend.task.frames) // HOP_FRAMES + 1)
        chosen = np.repeat(np.arange(len(sounds)), counts)
        frames = (np.arange(len(chosen)) - np.repeat(np.cumsum(counts) - counts, counts)) * HOP_FRAMES
        return MinedWindows(worst(sounds, frames, chosen), chosen, frames)

    none = MinedWindows(np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Mined(
        others=of_words(bank.others),
        alike=of_words(bank.alike),
        running=of_streams(bank.running),
        together=none if bank.together is None else of_streams(bank.together),
        noise=of_streams(bank.noise),
    )


WORDS_SECONDS = 3_600
"""Length of all rows of words together."""
ROW_FRAMES = 1_500
"""Frames of a row at least."""
GAP_FRAMES = 11
"""Frames between two words: fewer than this."""
EDGE_FRAMES = 3
"""Frames before and after a word that go with it."""
LOUDER_DB = 4.0
"""Decibels that a word may be louder or quieter than those beside it."""


def run_together(words: Sequence[Sounds], rng: np.random.Generator, frames: int = 100 * WORDS_SECONDS) -> Sounds:
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
    while length < ROW_FRAMES:
        sounds = words[int(rng.integers(len(words)))]
        chosen = int(rng.integers(len(sounds)))
        begin = max(0, int(sounds.begins[chosen]) - EDGE_FRAMES)
        end = min(int(sounds.lengths[chosen]), int(sounds.ends[chosen]) + EDGE_FRAMES)
        first = int(sounds.starts[chosen])
        gain = np.float32(10 ** (rng.uniform(-LOUDER_DB, LOUDER_DB) / 10))
        gap = int(rng.integers(GAP_FRAMES))
        parts.append(sounds.energies[first + begin : first + end] * gain)
        parts.append(np.zeros((gap, sounds.energies.shape[1]), np.float32))
        levels.append(float(sounds.levels[chosen] * gain))
        length += end - begin + gap
    return np.concatenate(parts), float(np.mean(levels))
