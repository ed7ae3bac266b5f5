"""Where in a recording or a window a word begins and ends, by the energy of the sound."""

from __future__ import annotations

import numpy as np

from auricle.speech.features import Energies

PAUSE = 10
"""Frames of silence inside a word, such as before the last sound of "stop"."""
RISE = 0.3
"""Share of the way from the quietest to the loudest frame from which a frame is sound."""
LEAST = 0.7
"""Nepers of energy (3 dB) that a sound stands out at least."""


def word_span(energies: Energies, floor: float) -> tuple[int, int]:
    """First frame of the loudest sound, and the frame after its last.

    The level of a frame is the mean over the bands of the logarithm of its energy, averaged over three frames; a frame
    is sound when it is above the tenth percentile by `RISE` of the range and by `LEAST`. From the loudest frame on, in
    both directions, the word goes to the last such frame before a longer pause.

    Parameters
    ----------
    energies
        (T, mels) mel energies, T >= 3.
    floor
        Energy below which the front-end does not look.

    Returns
    -------
    tuple
        Begin and end, 0 <= begin < end <= T.
    """
    levels = np.log(energies + np.float32(floor)).mean(axis=1)
    padded = np.pad(levels, 1, mode="edge")
    levels = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    quiet, peak = np.percentile(levels, 10), int(levels.argmax())
    sounding = np.flatnonzero(levels >= quiet + max(LEAST, RISE * (levels[peak] - quiet)))
    begin = end = peak
    for frame in sounding[sounding > peak]:
        if frame - end > PAUSE:
            break
        end = int(frame)
    for frame in sounding[sounding < peak][::-1]:
        if begin - frame > PAUSE:
            break
        begin = int(frame)
    return begin, end + 1
