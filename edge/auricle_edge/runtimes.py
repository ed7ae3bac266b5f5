"""Stock onnxruntime behind a small interface: one session per graph, shared by all who use the same pack."""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError, PackError
from auricle.pack import PARTS, ROLES, Graph, Pack
from auricle.tensors import Flat, TensorTable

try:
    import onnxruntime as ort
except ModuleNotFoundError as missing:
    if sys.maxsize > 1 << 32:
        raise
    raise AuricleError(
        f"onnxruntime has no wheel for 32-bit {platform.machine()}: use a 64-bit system and a 64-bit Python."
    ) from missing

Array = NDArray[Any]
EVALUATION_BATCH = 64


class StepRuntime:
    """Runs a pack's graphs. Thread-safe: weights are inputs, a session holds no state.

    Parameters
    ----------
    pack
        The pack whose graphs to run.
    threads
        Threads inside one operator; 1 where many devices share the machine.
    """

    def __init__(self, pack: Pack, threads: int = 1) -> None:
        self.pack = pack
        self._threads = threads
        self._sessions: dict[str, Any] = {}
        self._lock = threading.Lock()

    def _session(self, graph: Graph) -> Any:
        with self._lock:
            if graph.file not in self._sessions:
                options = ort.SessionOptions()
                options.intra_op_num_threads = self._threads
                options.inter_op_num_threads = 1
                options.log_severity_level = 3
                options.add_session_config_entry("session.intra_op.allow_spinning", "0")
                try:
                    session = ort.InferenceSession(
                        self.pack.files[graph.file], options, providers=["CPUExecutionProvider"]
                    )
                except Exception as error:
                    raise PackError(f"onnxruntime does not load {graph.file}: {error}") from error
                self._check(graph, session)
                self._sessions[graph.file] = session
            return self._sessions[graph.file]

    def _check(self, graph: Graph, session: Any) -> None:
        """The file must have the interface that the manifest says, for its models' and its front-end's sizes."""
        found = {value.name: value.shape for value in session.get_inputs()}
        task = self.pack.manifest.task
        batch = found.get("x", [None])[0] if graph.batch is None else graph.batch
        sizes: dict[str, list[Any]] = {"x": [batch, task.frames, task.frontend.mels]}
        for role, model in zip(ROLES[graph.kind], (graph.model, self.pack.manifest.plugin), strict=False):
            table = self.pack.table(model)
            sizes[f"{role}/body"] = [table.offsets["head.weight"].start]
            sizes[f"{role}/head.weight"] = ["labels", table.specs[-2].shape[1]]
        same = set(found) == set(graph.inputs) and [v.name for v in session.get_outputs()] == list(graph.outputs)
        if not same or any(found[name] != shape for name, shape in sizes.items()):
            raise PackError(f"The graph {graph.file} does not take or give what the pack's manifest says.")

    def step(self, graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
        """Run one training step; the outputs in the order of `graph.outputs`."""
        return self._session(graph).run(list(graph.outputs), dict(feeds))  # type: ignore[no-any-return]

    def logits(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (N, labels) of a model with weights (P,) for log-mels (N, T, mels)."""
        graph = self.pack.graph("evaluate", model)
        feeds: dict[str, Array] = named_parts("model", self.pack.table(model), weights)
        session = self._session(graph)
        parts = [
            session.run(["logits"], {**feeds, "x": features[i : i + EVALUATION_BATCH]})[0]
            for i in range(0, len(features), EVALUATION_BATCH)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.pack.labels)), np.float32)


def named_parts(model: str, table: TensorTable, weights: Flat) -> dict[str, Array]:
    """The three inputs that carry a model's weights (or its optimiser's state) into a graph."""
    return dict(zip((f"{model}/{part}" for part in PARTS), table.parts(weights), strict=True))


def joined_parts(model: str, table: TensorTable, values: Mapping[str, Array]) -> Flat:
    """The flat vector (P,) of the three tensors of a model."""
    return table.join(values[f"{model}/body"], values[f"{model}/head.weight"], values[f"{model}/head.bias"])


def cross_entropy(logits: NDArray[np.float32], targets: Sequence[int] | NDArray[np.int64]) -> float:
    """Mean cross-entropy of logits (N, C) with labels (N,), in float64; NaN for no samples."""
    z = logits.astype(np.float64)
    if not len(z):
        return float("nan")
    z -= z.max(axis=1, keepdims=True)
    chosen = z[np.arange(len(z)), np.asarray(targets)]
    return float(np.mean(np.log(np.exp(z).sum(axis=1)) - chosen))


def accuracy(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> float | None:
    """Share of samples whose largest logit is their label; None for no samples."""
    return float(np.mean(logits.argmax(axis=1) == targets)) if len(logits) else None
