"""The network of a pack's front-end in the hands of LiteRT."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.checks.tflite_check import check_tflite, state_shapes
from auricle.checks.tflite_weights import network_of, network_table, with_weights
from auricle.errors import PackError
from auricle.packs.manifest import Tflite
from auricle.packs.pack import Pack
from auricle.packs.start import network_tensors

State = list[NDArray[np.float32]]


def network_entry(pack: Pack) -> Tflite | None:
    """The `.tflite` of the network of a pack's own front-end; None where it has none."""
    return next((entry for entry in pack.manifest.tflite if network_of(pack, entry) is not None), None)


class TfliteNetwork:
    """The network of one pack, step by step. Thread-safe: what a sound leaves behind is in its stream.

    Parameters
    ----------
    pack
        The pack.
    entry
        Its `.tflite` of the network.
    make
        The interpreter's class.
    threads
        Threads inside one operator.

    Raises
    ------
    PackError
        The file is not what the manifest says, or LiteRT does not load it.
    """

    def __init__(self, pack: Pack, entry: Tflite, make: Callable[..., Any], threads: int = 1) -> None:
        network = pack.manifest.task.frontend.network
        assert network is not UNSET
        check_tflite(pack, entry)
        tensors = network_tensors(pack)
        flat = np.concatenate([tensors[spec.name].ravel() for spec in network_table(network).specs])
        try:
            self._interpreter = make(model_content=with_weights(pack, entry, flat), num_threads=threads)
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise PackError(f"LiteRT does not load {entry.file}: {error}") from error
        self._inputs = [detail["index"] for detail in self._interpreter.get_input_details()]
        self._outputs = [detail["index"] for detail in self._interpreter.get_output_details()]
        self._state = list(state_shapes(pack).values())
        self._field, self._stride, self._shape = network.field, network.stride, pack.manifest.task.input_shape
        self._lock = threading.Lock()

    def vectors(self, mels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors (N, T', size) of windows' log-mels (N, frames, mels).

        A window goes by in steps, the last of which ends with its last vector. What lies before its first frame is in
        none of the vectors that count.
        """
        count, stride = self._shape[0], self._stride
        end = self._field + (count - 1) * stride
        begun = np.pad(mels[:, :end], ((0, 0), (-end % stride, 0), (0, 0)))
        made = np.empty((len(mels), *self._shape), np.float32)
        for window, place in zip(begun, made, strict=True):
            stream = self.stream()
            heard = [stream(window[at : at + stride]) for at in range(0, len(window), stride)]
            place[...] = heard[-count:]
        return made

    def stream(self) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
        """A new sound."""
        state: State = [np.zeros(shape, np.float32) for shape in self._state]

        def step(mels: NDArray[np.float32]) -> NDArray[np.float32]:
            vectors, *state[:] = self._run([mels[None], *state])
            made: NDArray[np.float32] = vectors[0, 0]
            return made

        return step

    def _run(self, given: State) -> State:
        with self._lock:
            for place, numbers in zip(self._inputs, given, strict=True):
                self._interpreter.set_tensor(place, np.ascontiguousarray(numbers, np.float32))
            self._interpreter.invoke()
            return [self._interpreter.get_tensor(place) for place in self._outputs]
