"""How loud a word was, and how far above its room: by that the devices of a home settle which of them answers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from auricle.speech.quantiles import quantile
from auricle_edge.listening.sound import RATE

TENTH = RATE // 10
"""Samples of a tenth of a second."""
WORD_TENTHS = 3
"""Tenths, the loudest of the window in a row, that are taken for the word."""
QUIETEST_SHARE = 0.1
"""Share of all tenths that lies below what is taken for the noise of the room."""
SILENT_DBFS = -120.0


def loudness(samples: NDArray[np.int16], window: int) -> tuple[float, float]:
    """Level of a word and how far it stands out from the noise before it.

    Parameters
    ----------
    samples
        (n,), the newest last, as many seconds as there are; zeros of gaps are no noise.
    window
        How many of the newest have the word.

    Returns
    -------
    tuple[float, float]
        Decibels below full scale, of the loudest 0.3 s of the window, and decibels above the quietest tenth of all
        tenths of a second; the second is 0 where there is nothing to compare.
    """
    tenths = len(samples) // TENTH
    if tenths == 0:
        return SILENT_DBFS, 0.0
    pieces = samples[len(samples) - tenths * TENTH :].astype(np.float32).reshape(tenths, TENTH)
    powers = np.square(pieces / np.float32(32_768)).mean(axis=1, dtype=np.float64)
    heard = powers[-max(1, min(tenths, math.ceil(window / TENTH))) :]
    width = min(WORD_TENTHS, len(heard))
    level = _decibels(float(np.convolve(heard, np.full(width, 1 / width), "valid").max()))
    there = powers[powers > 0]
    noise = _decibels(quantile(there, QUIETEST_SHARE)) if len(there) else level
    return round(level, 1), round(max(0.0, level - noise), 1)


def _decibels(power: float) -> float:
    return max(SILENT_DBFS, 10 * math.log10(max(power, 1e-12)))
