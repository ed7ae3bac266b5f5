"""A program that the C library has checked, and its memory."""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle_edge.runtimes.native.program import Program, UnsupportedError
from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.library import Library


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

    def _run(self, handle: int, arena: NDArray[np.float32]) -> None:
        if self._functions.step_run(handle, arena.ctypes.data, arena.size) != 0:
            raise AuricleError("The memory for the runtime native is too small.")
