"""Where in a window the word ended, by the energy of the sound."""

from __future__ import annotations

import numpy as np

from auricle.speech.features import Energies

PAUSE = 10
"""Frames of silence inside a word, such as before the last sound of "stop"."""
RISE = 0.3
"""Share of the way from the quietest to the loudest frame from which a frame is sound."""
LEAST = 0.7
"""Nepers of energy (3 dB) that a sound stands out at least."""


def last_frame(energies: Energies, floor: float) -> int:
    """The last frame of the loudest sound in a window.

    The level of a frame is the mean over the bands of the logarithm of its energy, averaged over three frames; a frame
    is sound when it is above the window's tenth percentile by `RISE` of the range and by `LEAST`. From the loudest
    frame on, the word goes to the last such frame before a longer pause.

    Parameters
    ----------
    energies
        (T, mels) mel energies, T >= 3.
    floor
        Energy below which the front-end does not look.

    Returns
    -------
    int
        Index of the frame, 0 to T - 1.
    """
    levels = np.log(energies + np.float32(floor)).mean(axis=1)
    padded = np.pad(levels, 1, mode="edge")
    levels = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    quiet, peak = np.percentile(levels, 10), int(levels.argmax())
    sounding = np.flatnonzero(levels >= quiet + max(LEAST, RISE * (levels[peak] - quiet)))
    end = peak
    for frame in sounding[sounding > peak]:
        if frame - end > PAUSE:
            break
        end = int(frame)
    return end
