"""A planned graph that can run, and the memory in which it does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.wire.tensors import Flat
from auricle_learning.native.loaded_program import LoadedProgram
from auricle_learning.native.plan import Plan, Slot
from auricle_learning.runtimes.interface import Array


@dataclass(eq=False)
class Memory:
    """An arena, and in it the values that go in and come out, by name."""

    arena: NDArray[np.float32]
    inputs: Mapping[str, NDArray[np.float32]]
    outputs: Mapping[str, NDArray[np.float32]]
    holds: Flat | None = None
    """Weights that nobody can change and that are in their places already."""


@dataclass
class Ready:
    """A graph that can run: its plan, the library's copy of its program, and memory that nobody uses at present."""

    plan: Plan
    program: LoadedProgram
    idle: list[Memory] = field(default_factory=list)

    def borrow(self) -> Memory:
        """Memory that nobody uses until it is given back to `idle`: what is there, or new one."""
        try:
            return self.idle.pop()  # one call, so that no two threads get the same
        except IndexError:
            return self._memory()

    def _memory(self) -> Memory:
        """New memory, with the constants in their places."""
        arena = self.program.arena()
        for offset, numbers in self.plan.constants:
            arena[offset : offset + numbers.size] = numbers.ravel()
        self.program.settle(arena)

        def parts(slots: Mapping[str, Slot]) -> dict[str, NDArray[np.float32]]:
            return {name: arena[at : at + math.prod(shape)].reshape(shape) for name, (at, shape) in slots.items()}

        return Memory(arena, parts(self.plan.inputs), parts(self.plan.outputs))


def put(name: str, place: NDArray[np.float32], value: Array) -> None:
    """Copy numbers to their place; AuricleError where they are of another shape."""
    if np.shape(value) != place.shape:
        raise AuricleError(f"{name} is of shape {np.shape(value)} where the graph takes {place.shape}.")
    place[...] = value
