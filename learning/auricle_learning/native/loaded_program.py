"""A program that the C library has checked, and its memory."""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.library import Library
from auricle_learning.native.program import Program, UnsupportedError


class LoadedProgram:
    """A program that the library has checked against the size of its arena.

    Parameters
    ----------
    library
        The library.
    program
        What to run.
    level
        The widest instructions to use, one of `LEVELS`; without, the best of this processor.

    Raises
    ------
    UnsupportedError
        The library refuses it: something in it lies outside its arena.
    """

    def __init__(self, library: Library, program: Program, level: str | None = None) -> None:
        most = len(LEVELS) if level is None else LEVELS.index(level)
        self._functions = library.functions
        self._once, self._often = (self._loaded(words, program.arena, most) for words in (program.once, program.words))
        self.floats = program.arena + library.pad

    def _loaded(self, words: NDArray[np.int32], arena: int, most: int) -> int:
        """The library's own copy of a list of instructions."""
        words = np.ascontiguousarray(words, np.int32)
        handle: int | None = self._functions.step_load(words.ctypes.data, words.size, arena, most)
        if not handle:
            raise UnsupportedError("the library takes its program for one that leaves its arena")
        weakref.finalize(self, self._functions.step_free, handle).atexit = False  # a thread may still run it
        return handle

    def arena(self) -> NDArray[np.float32]:
        """New memory for one run at a time, zeros, on a cache line."""
        raw = np.zeros(self.floats + 16, np.float32)
        start = -(raw.ctypes.data // 4) % 16
        return raw[start : start + self.floats]

    def settle(self, arena: NDArray[np.float32]) -> None:
        """Make what only constants and weights that are read decide: before the first run, and after they changed."""
        self._run(self._once, arena)

    def run(self, arena: NDArray[np.float32]) -> None:
        """Run once in an arena of `arena()`."""
        self._run(self._often, arena)

    def run_batches(
        self,
        arena: NDArray[np.float32],
        numbers: NDArray[np.float32],
        places: NDArray[np.int64],
        results: NDArray[np.int64],
        stop: NDArray[np.int32] | None = None,
    ) -> NDArray[np.float32]:
        """Run once for each batch, in one call, and look between two of them whether to stop.

        Parameters
        ----------
        arena
            Of `arena()`.
        numbers
            Those of each batch (N, S), one value behind the other.
        places
            Offset in the arena and size of each of these values (V, 2); the sizes sum up to S.
        results
            Offsets (R,) of numbers that are kept after each run.
        stop
            One number (1,) that another thread may set to end it before the next batch.

        Returns
        -------
        NDArray
            The results (D, R) of the batches that were run: all N, or fewer where it was told to stop.
        """
        count, size = numbers.shape
        if places.shape[1:] != (2,) or places[:, 1].sum() != size or (stop is not None and stop.size != 1):
            raise AuricleError(f"A batch of {size} numbers does not fit its places: give both as one plan has them.")
        given = [np.ascontiguousarray(numbers, np.float32)]
        given += [np.ascontiguousarray(each, np.int64) for each in (places, results)]
        found = np.zeros((count, len(results)), np.float32)
        addresses = [each.ctypes.data for each in given]
        done: int = self._functions.step_batches(
            *(self._often, arena.ctypes.data, arena.size, count, addresses[0]),
            *(addresses[1], len(places), addresses[2], len(results)),
            *(found.ctypes.data, None if stop is None else stop.ctypes.data),
        )
        if done < 0:
            raise _too_small(arena)
        return found[:done]

    def _run(self, handle: int, arena: NDArray[np.float32]) -> None:
        if self._functions.step_run(handle, arena.ctypes.data, arena.size) != 0:
            raise _too_small(arena)


def _too_small(arena: NDArray[np.float32]) -> AuricleError:
    return AuricleError(f"The memory of {arena.size} numbers is too small for the program: give what its plan says.")
