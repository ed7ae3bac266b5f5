"""The network of a pack's front-end in the hands of the C library."""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import NDArray

from auricle.packs.pack import Pack
from auricle.packs.start import network_tensors
from auricle_learning.native.memory import Memory, Ready, put


class NativeNetwork:
    """The network of one pack. Thread-safe: a run has its own memory, and a sound keeps one as long as it lasts.

    Parameters
    ----------
    pack
        A pack whose front-end has a network.
    whole, step
        Its two graphs, planned.
    """

    def __init__(self, pack: Pack, whole: Ready, step: Ready) -> None:
        self._tensors = {f"network/{name}": numbers for name, numbers in network_tensors(pack).items()}
        self._whole, self._step, self._shape = whole, step, pack.manifest.task.input_shape

    def _filled(self, ready: Ready) -> Memory:
        """Memory with the network's tensors in it: nobody changes them there, so a second time they are there."""
        memory = ready.borrow()
        if memory.holds is not self._mark:
            for name, numbers in self._tensors.items():
                put(name, memory.inputs[name], numbers)
            ready.program.settle(memory.arena)
            memory.holds = self._mark
        return memory

    @property
    def _mark(self) -> NDArray[np.float32]:
        return next(iter(self._tensors.values()))

    def vectors(self, mels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors (N, T', size) of windows' log-mels (N, frames, mels)."""
        made = np.empty((len(mels), *self._shape), np.float32)
        memory = self._filled(self._whole)
        for window, place in zip(mels, made, strict=True):
            put("x", memory.inputs["x"], window[None])
            self._whole.program.run(memory.arena)
            place[...] = memory.outputs["vectors"][0]
        self._whole.idle.append(memory)
        return made

    def stream(self) -> NativeStream:
        """A new sound."""
        return NativeStream(self._step, self._filled(self._step))


class NativeStream:
    """One sound as it comes, in memory of its own: a run leaves its state where the next one looks for it."""

    def __init__(self, ready: Ready, memory: Memory) -> None:
        self._ready, self._memory = ready, memory
        weakref.finalize(self, ready.idle.append, memory).atexit = False  # the next sound's
        for name, numbers in memory.inputs.items():
            if f"new/{name}" in memory.outputs:
                numbers[...] = 0

    def __call__(self, mels: NDArray[np.float32]) -> NDArray[np.float32]:
        """The vector (size,) that ends with the next log-mels (stride, mels)."""
        put("x", self._memory.inputs["x"], mels[None])
        self._ready.program.run(self._memory.arena)
        made: NDArray[np.float32] = self._memory.outputs["vectors"][0, 0].copy()
        return made
