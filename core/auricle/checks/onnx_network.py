"""The network of a pack's front-end, run by onnxruntime once its graphs were checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.checks.graph_check import check_graph
from auricle.errors import PackError, extra_command
from auricle.packs.graph_interface import FRONTENDS
from auricle.packs.pack import Pack
from auricle.packs.start import network_tensors
from auricle.speech.features import LogMel

if TYPE_CHECKING:
    import onnxruntime as ort


class OnnxNetwork:
    """The network of one pack; thread-safe, for what a sound leaves behind is in its stream.

    Parameters
    ----------
    pack
        A pack whose front-end has a network.
    threads
        Threads inside one operator.

    Raises
    ------
    PackError
        onnxruntime is not installed, or its graphs or tensors are not sound.
    """

    def __init__(self, pack: Pack, threads: int = 1) -> None:
        tensors = network_tensors(pack)
        self._tensors = {f"network/{name}": numbers for name, numbers in tensors.items()}
        self._whole, self._step = (_session(pack, kind, threads) for kind in FRONTENDS)
        self._empty = {
            name: np.zeros(shape, np.float32) for name, shape in pack.network_graph(FRONTENDS[1]).state.items()
        }
        self._shape = pack.manifest.task.input_shape

    def vectors(self, mels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors (N, T', size) of windows' log-mels (N, frames, mels)."""
        made = [self._whole.run(["vectors"], {**self._tensors, "x": mels[i : i + 1]})[0] for i in range(len(mels))]
        return np.concatenate(made) if made else np.zeros((0, *self._shape), np.float32)

    def stream(self) -> OnnxStream:
        """A new sound."""
        return OnnxStream(self._step, self._tensors, dict(self._empty))


class OnnxStream:
    """One sound as it comes."""

    def __init__(
        self,
        session: ort.InferenceSession,
        tensors: dict[str, NDArray[np.float32]],
        state: dict[str, NDArray[np.float32]],
    ) -> None:
        self._session, self._tensors, self._state = session, tensors, state
        self._names = ["vectors", *(f"new/{name}" for name in state)]

    def __call__(self, mels: NDArray[np.float32]) -> NDArray[np.float32]:
        """The vector (size,) that ends with the next log-mels (stride, mels)."""
        vectors, *state = self._session.run(self._names, {**self._tensors, **self._state, "x": mels[None]})
        self._state = dict(zip(self._state, state, strict=True))
        made: NDArray[np.float32] = vectors[0, 0]
        return made


def _session(pack: Pack, kind: str, threads: int) -> ort.InferenceSession:
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise PackError(
            f"The front-end of the pack {pack.manifest.name} has a network, and onnxruntime, which runs it here, is "
            f"not installed: {extra_command('edge')}."
        ) from error
    graph = pack.network_graph(kind)
    check_graph(pack, graph)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return ort.InferenceSession(pack.files[graph.file], options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise PackError(f"onnxruntime does not load {graph.file}: {error}") from error


def frontend_of(pack: Pack, threads: int = 1) -> LogMel:
    """The front-end of a pack; where it has a network onnxruntime runs it."""
    task = pack.manifest.task
    return LogMel(task, None if task.frontend.network is UNSET else OnnxNetwork(pack, threads))
