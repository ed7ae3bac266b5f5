"""Half precision read in one pass with the C library: the numbers, the largest of them, and how far they have moved."""

from __future__ import annotations

import ctypes
import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.wire.float16 import from_float16
from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.library import Library, found_library

FloatArray = NDArray[np.float32]


class HalfReader:
    """Reads blocks of little-endian halves.

    Parameters
    ----------
    library
        The library.
    level
        The widest instructions to use, one of `LEVELS`; without, the best of this processor.
    """

    def __init__(self, library: Library, level: str | None = None) -> None:
        self._read = library.functions.sums_halves
        self._most = len(LEVELS) if level is None else LEVELS.index(level)

    def read(self, block: bytes, out: FloatArray, base: FloatArray | None = None) -> tuple[float, float] | None:
        """Write the numbers of a block (P,) to `out`; None where one is not finite.

        Parameters
        ----------
        out, base
            (P,) float32, each in one piece; `base` is where the numbers began.

        Returns
        -------
        tuple of float
            The largest number by size, and ||out - base||_2 (||out||_2 without a base), which is added up in float64
            of differences in float32.

        Raises
        ------
        AuricleError
            The arrays have other sizes than the block, or are not in one piece.
        """
        arrays = [out] if base is None else [out, base]
        if any(a.dtype != np.float32 or not a.flags.c_contiguous or 2 * a.size != len(block) for a in arrays):
            raise AuricleError("Halves are read into float32 arrays of as many numbers, in one piece.")
        found = (ctypes.c_double * 2)()
        begun = None if base is None else base.ctypes.data
        answer = self._read(block, out.size, begun, out.ctypes.data, found, self._most)
        if answer < 0:
            raise AuricleError("The C library was asked for numbers outside of a block: report this.")
        if answer:
            return None
        largest = np.array([found[0]], np.uint16).view(np.float16)
        return float(largest[0]), math.sqrt(found[1])


@cache
def half_reader() -> HalfReader | None:
    """A reader, where the library is there and reads as NumPy does."""
    library = found_library()
    if library is None:
        return None
    reader = HalfReader(library)
    finite = np.arange(1 << 16).astype("<u2")
    block = finite[finite & 0x7C00 != 0x7C00].tobytes()
    out, plain = np.empty(len(block) // 2, np.float32), from_float16(block)
    ours = reader.read(block, out)
    return reader if ours is not None and plain is not None and out.tobytes() == plain.tobytes() else None
