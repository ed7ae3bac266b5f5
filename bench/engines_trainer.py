"""A runtime that trains the plug-in as pfl's PyTorch trainer does: what an engine costs beside the training."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat
from auricle_edge.runtimes import RuntimeKind
from auricle_learning.runtimes.interface import Array, InferenceOnly, Job
from bench.engines_torch import BATCH, Twin, put, taken, train, twin
from bench.engines_worker import Facts


class TorchRuntime(InferenceOnly):
    """Trains the plug-in on labels by plain SGD, a module for each thread.

    Parameters
    ----------
    pack
        Whose plug-in it is.
    """

    name = "torch"

    def __init__(self, pack: Pack) -> None:
        self.pack, self._kept = pack, threading.local()
        tensors = [(tensor.name, tensor.shape) for tensor in pack.plugin_table.specs]
        self._spec: Facts = {"model": pack.manifest.plugin, "labels": len(pack.labels), "tensors": tensors}

    @property
    def module(self) -> Twin:
        """This thread's."""
        if not hasattr(self._kept, "module"):
            self._kept.module = twin(self._spec)
        module: Twin = self._kept.module
        return module

    def logits(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (N, labels) of the plug-in with weights (P,) for log-mels (N, T, mels)."""
        if not len(features):
            return np.zeros((0, len(self.pack.labels)), np.float32)
        put(self.module, weights, self._spec)
        with torch.no_grad():
            found: NDArray[np.float32] = self.module(torch.from_numpy(features)).numpy()
        return found

    def has(self, kind: str, model: str, optimizer: str) -> bool:
        """What the benchmark does."""
        return (kind, model, optimizer) == ("supervised", self._spec["model"], "sgd")

    def begin(self, job: Job) -> TorchTraining:
        """Begin an epoch."""
        put(self.module, job.weights["model"], self._spec)
        return TorchTraining(self.module, self._spec, job)


class TorchTraining:
    """One client's epoch, of a single batch."""

    batch = BATCH

    def __init__(self, module: Twin, spec: Facts, job: Job) -> None:
        self._module, self._spec, self.steps = module, spec, 0
        self._rate, self._clip = job.scalar("model.rate"), job.scalar("model.clip")

    def step(self, batch: Mapping[str, Array]) -> dict[str, float]:
        """Train on a batch of clips that weigh 1 each; the loss."""
        self.steps += 1
        x, y = torch.from_numpy(batch["x"]), torch.from_numpy(batch["target"].argmax(axis=1))
        return {"loss": train(self._module, x, y, self._rate, self._clip)}

    def weights(self, role: str) -> Flat:
        """(P,) as they are now."""
        return taken(self._module, self._spec)

    def slots(self) -> dict[str, Flat]:
        """None: plain SGD has no state."""
        return {}

    def maps(self, role: str) -> Flat:
        """None."""
        return np.zeros(0, np.float32)


kind = RuntimeKind("torch", lambda _pack, _training: None, lambda pack, _threads: TorchRuntime(pack))
"""What an entry point names."""
