"""Mel energies of many clips, computed in parts and kept in memory or in a file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.speech.features import Energies, LogMel
from auricle.speech.row_store import RowStore, Spill
from auricle.speech.speech_set import Progress

_PART = 256


def energy_rows(
    frontend: LogMel,
    audio: NDArray[np.int16],
    clips: NDArray[np.int64],
    *,
    spill: Spill | None = None,
    progress: Progress | None = None,
) -> Energies:
    """Compute the energies of chosen clips, 16 kB a clip of 100 frames and 40 mels.

    They stay float32: at the front-end's floor of 1e-6 float16 has four bits left.

    Parameters
    ----------
    frontend
        Of the task.
    audio
        (N, samples), in memory or mapped from a file.
    clips
        (n,) places in `audio`.
    spill
        Where many rows go instead of into memory.
    progress
        Called with the clips done and the clips in all.

    Returns
    -------
    Energies
        (n, frames, mels).

    Raises
    ------
    StorageError
        There is no room where `spill` puts them.
    """
    rows = RowStore(len(clips), (frontend.task.frames, frontend.task.frontend.mels), np.float32, spill)
    for start in range(0, len(clips), _PART):
        part = clips[start : start + _PART]
        rows.put(frontend.energies(audio[part]))
        if progress:
            progress(start + len(part), len(clips))
    return rows.finish()
