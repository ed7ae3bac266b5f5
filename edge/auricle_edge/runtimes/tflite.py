"""LiteRT over a pack's `.tflite` files: recognises, one interpreter a model, its weights replaced by copying bytes."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.checks.tflite_check import check_tflite
from auricle.checks.tflite_weights import with_weights
from auricle.errors import AuricleError, PackError, extra_command
from auricle.packs.manifest import Tflite
from auricle.packs.pack import Pack
from auricle.speech.features import FrozenNetwork
from auricle.wire.tensors import Flat
from auricle_edge.runtimes.tflite_network import TfliteNetwork, network_entry
from auricle_learning.runtimes.interface import InferenceOnly

PRECISIONS = ("float32", "int8")
INTERPRETERS = ("ai_edge_litert.interpreter", "tflite_runtime.interpreter")
"""Modules that run `.tflite`; the second is the older package, for NumPy before 2."""


@dataclass(frozen=True)
class _Loaded:
    """A model with its weights in place, ready to run."""

    weights: Flat
    interpreter: Any
    entry: Tflite
    input: int
    output: int


class TfliteRuntime(InferenceOnly):
    """Runs a pack's `.tflite` models. Thread-safe: an interpreter runs for one caller at a time.

    Parameters
    ----------
    pack
        With `.tflite` files, see `auricle export tflite`.
    threads
        Threads inside one operator.
    precision
        `float32` or `int8`; None: float32 where the pack has it, else int8.

    Raises
    ------
    AuricleError
        Neither LiteRT nor tflite-runtime is installed.
    PackError
        The pack has no `.tflite` of this precision.
    """

    name = "tflite"

    def __init__(self, pack: Pack, threads: int = 1, precision: str | None = None) -> None:
        self.pack = pack
        self._make = interpreter_class()
        self._threads = threads
        self._wanted = PRECISIONS if precision is None else (precision,)
        self._loaded: dict[str, _Loaded] = {}
        self._checked: set[Tflite] = set()
        self._lock = threading.Lock()
        self._network: FrozenNetwork | None = None
        if not any(entry.precision in self._wanted and entry.model in pack.tables for entry in pack.manifest.tflite):
            wanted = " or ".join(self._wanted)
            raise PackError(f"The pack {pack.manifest.name} has no {wanted} .tflite model: auricle export tflite.")

    def logits(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (N, labels) of a model with weights (P,) for log-mels (N, T, mels).

        The interpreter of a model is kept while its weights stay the same.

        Raises
        ------
        PackError
            The pack has no `.tflite` of the model, or the file is not what its manifest says.
        """
        found = np.zeros((len(features), len(self.pack.labels)), np.float32)
        with self._lock:
            loaded = self._ready(model, weights)
            batch = loaded.entry.batch
            for start in range(0, len(features), batch):
                piece = features[start : start + batch]
                found[start : start + len(piece)] = _run(loaded, piece)
        return found

    def network(self) -> FrozenNetwork:
        """What runs the network of the pack's front-end, which has to have one: LiteRT where it has a `.tflite` of it.

        Raises
        ------
        PackError
            It has none, and onnxruntime is not installed.
        """
        with self._lock:
            if self._network is None:
                entry = network_entry(self.pack)
                if entry is not None:
                    self._network = TfliteNetwork(self.pack, entry, self._make, self._threads)
                elif importlib.util.find_spec("onnxruntime") is not None:
                    from auricle.checks.onnx_network import OnnxNetwork

                    self._network = OnnxNetwork(self.pack, self._threads)
                else:
                    raise PackError(
                        f"The front-end of the pack {self.pack.manifest.name} has a network, of which it has no "
                        f".tflite: auricle export tflite, or for onnxruntime {extra_command('edge')}."
                    )
            return self._network

    def _ready(self, model: str, weights: Flat) -> _Loaded:
        loaded = self._loaded.get(model)
        if loaded is None or not np.array_equal(loaded.weights, weights):
            self._loaded.pop(model, None)
            loaded = self._loaded[model] = self._load(self._entry(model), weights)
        return loaded

    def _entry(self, model: str) -> Tflite:
        self.pack.table(model)
        for precision in self._wanted:
            for entry in self.pack.manifest.tflite:
                if (entry.model, entry.precision) == (model, precision):
                    return entry
        raise PackError(
            f"The pack {self.pack.manifest.name} has no {' or '.join(self._wanted)} .tflite of {model}: "
            f"auricle export tflite."
        )

    def _load(self, entry: Tflite, weights: Flat) -> _Loaded:
        if entry not in self._checked:
            check_tflite(self.pack, entry)
            self._checked.add(entry)
        content = with_weights(self.pack, entry, weights)
        try:
            interpreter = self._make(model_content=content, num_threads=self._threads)
            interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise PackError(f"LiteRT does not load {entry.file}: {error}") from error
        details = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
        return _Loaded(weights.copy(), interpreter, entry, details[0]["index"], details[1]["index"])


def _run(loaded: _Loaded, features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logits of at most a batch; a partial one is padded with silence."""
    missing = loaded.entry.batch - len(features)
    padded = np.pad(features, ((0, missing), (0, 0), (0, 0))) if missing else features
    loaded.interpreter.set_tensor(loaded.input, np.ascontiguousarray(padded, np.float32))
    loaded.interpreter.invoke()
    logits: NDArray[np.float32] = loaded.interpreter.get_tensor(loaded.output)
    return logits[: len(features)]


def interpreter_class() -> Callable[..., Any]:
    """The class that runs `.tflite`: LiteRT's, or tflite-runtime's where NumPy is older than 2.

    Raises
    ------
    AuricleError
        Neither is installed, or the only one that is does not work with this NumPy.
    """
    reasons = []
    for module in INTERPRETERS:
        package = module.partition(".")[0]
        if package == "tflite_runtime" and int(np.__version__.partition(".")[0]) >= 2:
            reasons.append(f"tflite-runtime needs NumPy before 2, this is {np.__version__}")
            continue
        try:
            found: Callable[..., Any] = importlib.import_module(module).Interpreter
            return found
        except ImportError as error:
            reasons.append(f"{package}: {error}")
    why = "; ".join(reasons)
    raise AuricleError(f"The runtime tflite needs LiteRT, {extra_command('tflite')}, or choose --runtime step: {why}.")
