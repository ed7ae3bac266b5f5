"""Where clips and their features lie while they are used: in memory, or in a file without a name when they are many."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from auricle.errors import StorageError
from auricle.files import describe

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Spill:
    """Where many rows go instead of into memory."""

    folder: Path
    """A folder on a disk; its space is given back when the rows are no longer used."""

    above: int = 640_000_000
    """So many bytes stay in memory: 20,000 clips of a second."""


class RowStore(Generic[T]):
    """Rows of one shape, put one after the other and then read as one array.

    With a `Spill` and more bytes than it allows they are written to a file that has no name, so that nothing is left
    over after a crash, and read through a memory map: the system keeps in memory what fits and is in use.

    Parameters
    ----------
    count
        The most rows that will be put.
    shape
        Of a row: (16000,) for a clip.
    dtype
        Of its numbers.
    spill
        Where many go; None keeps all in memory.

    Raises
    ------
    StorageError
        The folder cannot be written, or its disk has not enough space.
    """

    def __init__(self, count: int, shape: tuple[int, ...], dtype: type[T], spill: Spill | None = None) -> None:
        self._rows, self._shape, self._dtype = 0, shape, dtype
        size = count * prod(shape) * np.dtype(dtype).itemsize
        self._held: NDArray[T] | IO[bytes]
        self.file: IO[bytes] | None = None
        """Where they lie; None: in memory. It stays open as long as somebody keeps it."""
        if spill is None or size <= spill.above:
            self._held = np.empty((count, *shape), dtype)
        else:
            self._held = self.file = _reserve(spill.folder, size)

    def put(self, rows: NDArray[T]) -> None:
        """Add rows (n, *shape) of the store's own type."""
        if rows.shape[1:] != self._shape or rows.dtype != self._dtype:
            raise ValueError(f"rows must be (n, {self._shape}) {np.dtype(self._dtype)}, not {rows.shape} {rows.dtype}")
        if isinstance(self._held, np.ndarray):
            self._held[self._rows : self._rows + len(rows)] = rows
        else:
            self._held.write(np.ascontiguousarray(rows).data)
        self._rows += len(rows)

    def finish(self) -> NDArray[T]:
        """Give the rows that were put, (n, *shape); once, and nothing is put afterwards."""
        if isinstance(self._held, np.ndarray):
            return self._held[: self._rows]
        self._held.flush()
        if not self._rows:
            return np.empty((0, *self._shape), self._dtype)
        mapped: np.memmap[Any, np.dtype[T]] = np.memmap(self._held, self._dtype, "r", shape=(self._rows, *self._shape))
        return mapped


def _reserve(folder: Path, size: int) -> IO[bytes]:
    """Open a file without a name that has its space already: a full disk is found out at once."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < size:
            raise StorageError(
                f"The speech takes {size / 1e9:.1f} GB in {folder}, and {free / 1e9:.1f} GB are free there: "
                "free some space or choose another folder."
            )
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        if sys.platform.startswith("linux"):
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    return file
