"""Where clips lie while they are used: in memory, or in a file without a name when they are many."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from auricle.errors import StorageError
from auricle.files import describe
from auricle.speech.audio import CLIP_SAMPLES

_CLIP_BYTES = 2 * CLIP_SAMPLES


@dataclass(frozen=True, slots=True)
class Spill:
    """Where many clips go instead of into memory."""

    folder: Path
    """A folder on a disk: 32 kB a clip are taken in it, and given back when the clips are no longer used."""

    above: int = 20_000
    """So many clips stay in memory (640 MB)."""


class ClipRows:
    """Clips of one second, put one after the other and then read as one array.

    With a `Spill` and more clips than it allows they are written to a file that has no name, so that nothing is left
    over after a crash, and read through a memory map: the system keeps in memory what fits and is in use.

    Parameters
    ----------
    count
        The most clips that will be put.
    spill
        Where many go; None keeps all in memory.

    Raises
    ------
    StorageError
        The folder cannot be written, or its disk has not enough space.
    """

    def __init__(self, count: int, spill: Spill | None = None) -> None:
        self._rows = 0
        self._file: IO[bytes] | None = None
        self._memory: NDArray[np.int16] | None = None
        if spill is None or count <= spill.above:
            self._memory = np.empty((count, CLIP_SAMPLES), np.int16)
        else:
            self._file = _reserved(spill.folder, count)

    def put(self, clips: NDArray[np.int16]) -> None:
        """Add clips (n, 16000)."""
        if self._memory is not None:
            self._memory[self._rows : self._rows + len(clips)] = clips
        elif self._file is not None:
            self._file.write(np.ascontiguousarray(clips).data)
        self._rows += len(clips)

    def finish(self) -> NDArray[np.int16]:
        """Give the clips that were put: (n, 16000)."""
        if self._file is None:
            assert self._memory is not None
            return self._memory[: self._rows]
        self._file.flush()
        with self._file as file:
            if not self._rows:
                return np.empty((0, CLIP_SAMPLES), np.int16)
            return np.memmap(file, np.int16, "r", shape=(self._rows, CLIP_SAMPLES))


def _reserved(folder: Path, count: int) -> IO[bytes]:
    """Open a file without a name that has its space already: a full disk is found out at once."""
    size = count * _CLIP_BYTES
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < size:
            raise StorageError(
                f"{count:,} clips take {size / 1e9:.1f} GB in {folder}, and {free / 1e9:.1f} GB are free there: "
                "free some space or choose another folder."
            )
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    return file
