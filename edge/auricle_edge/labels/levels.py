"""Levels of sound over time, and the stretches that stand out of the room's noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from auricle_edge.listening.sound import RATE

FRAME = RATE // 100
"""Samples of a frame: 10 ms."""
FULL_SCALE = 32_768.0
SILENT = -96.0
"""dB of full scale: nothing is quieter in 16 bits."""


def levels(samples: NDArray[np.int16]) -> NDArray[np.float64]:
    """Root mean square (F,) of each whole frame of (n,) samples, in dB of full scale."""
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float64) / FULL_SCALE
    power = np.maximum(np.square(frames).mean(axis=1), 10 ** (SILENT / 10))
    found: NDArray[np.float64] = 10 * np.log10(power)
    return found


def room(found: NDArray[np.float64]) -> float:
    """The room's level: what a fifth of the frames stay below."""
    return float(np.quantile(found, 0.2)) if len(found) else SILENT


def stretches(loud: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Runs (first, after) of loud frames (F,); those at most `gap` quiet frames apart are one."""
    found: list[tuple[int, int]] = []
    for frame in np.flatnonzero(loud):
        if found and frame - found[-1][1] <= gap:
            found[-1] = (found[-1][0], int(frame) + 1)
        else:
            found.append((int(frame), int(frame) + 1))
    return found


def loudest_word(
    samples: NDArray[np.int16], length: int, above: float = 10.0, known: Sequence[tuple[int, int]] = ()
) -> int | None:
    """First sample of the clip of `length` samples around the loudest stretch that may be a word; None without one.

    A stretch is what stands `above` dB over the room, with pauses of at most 150 ms, and may be a word if it lasts
    80 ms to 1.5 s. The clip has it in its middle as far as the sound reaches. Nothing counts in `known`: ranges (first,
    after) of samples of which it is clear already what they are.
    """
    found = levels(samples)
    loud = found > room(found) + above
    for first, after in known:
        loud[max(0, first) // FRAME : max(0, after) // FRAME] = False
    candidates = [
        (float(10 * np.log10(np.sum(10 ** (found[a:b] / 10)))), -a, b)
        for a, b in stretches(loud, 15)
        if 8 <= b - a <= 150
    ]
    if not candidates or len(samples) < length:
        return None
    _, negative, after = max(candidates)
    middle = (after - negative) * FRAME // 2
    return int(np.clip(middle - length // 2, 0, len(samples) - length))
