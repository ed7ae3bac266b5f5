"""onnxruntime-training over the artifacts of a pack: for workstations that have it, and to compare with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError, PackError
from auricle.packs.graph_interface import SLOTS
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat
from auricle_edge.runtimes.ort_model import ATTRIBUTES, OrtArtifacts, OrtModel
from auricle_learning.runtimes.interface import Array, Job
from auricle_learning.runtimes.step import StepRuntime

KINDS = ("supervised", "mutual", "alternating")
UNKNOWN = {"sgd": ("momentum", "decay"), "adamw": ("l2",)}
"""Hyper-parameters that its optimizers do not have."""
LOSS_SCALARS = ("alpha", "plugin_ce", "temperature")


class OrtTrainingRuntime:
    """Trains with onnxruntime-training, recognises with the inference that is part of it.

    Parameters
    ----------
    pack
        A pack with artifacts (`auricle export artifacts`).
    threads
        Threads inside one operator.

    Raises
    ------
    AuricleError
        onnxruntime-training is not installed, or the pack has no artifacts.
    """

    name = "ort-training"

    def __init__(self, pack: Pack, threads: int = 1) -> None:
        self.pack = pack
        self._artifacts = OrtArtifacts(pack, threads)
        if not pack.manifest.ort_training:
            raise PackError(
                f"The pack {pack.manifest.name} has no files for the runtime ort-training: make one that has with "
                "auricle export artifacts, or choose --runtime step."
            )
        self._evaluator = StepRuntime(pack, threads)

    def logits(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (N, labels) of a model with weights (P,) for log-mels (N, T, mels)."""
        return self._evaluator.logits(model, weights, features)

    def embeddings(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the classifier sees (N, H), for the same."""
        return self._evaluator.embeddings(model, weights, features)

    def has(self, kind: str, model: str, optimizer: str) -> bool:
        """Whether the pack has artifacts for such jobs."""
        entry = self.pack.manifest.ort_training.get(model)
        return kind in KINDS and entry is not None and optimizer in entry.optimizers

    def begin(self, job: Job) -> ArtifactTraining:
        """Begin a job of supervised or mutual learning: tens of milliseconds, since every job loads its models again.

        Raises
        ------
        AuricleError
            The job asks for what onnxruntime-training or its artifacts cannot do; the sentence names it.
        """
        if job.drops:
            raise AuricleError("The runtime ort-training drops no activations by maps: choose --runtime step.")
        if job.kind not in KINDS:
            raise AuricleError(f"The runtime ort-training does not do {job.kind} learning: choose --runtime step.")
        lacking = [n for role in job.models for n in UNKNOWN[job.optimizer] if job.scalar(f"{role}.{n}")]
        if job.terms or lacking:
            raise AuricleError(
                f"The runtime ort-training has no {[*job.terms, *lacking][0]} with {job.optimizer}: choose "
                "--runtime step."
            )
        return ArtifactTraining(job, {role: self._model(job, role) for role in job.models})

    def end_training(self) -> None:
        """Nothing to give up: a job's models go with it."""

    def _model(self, job: Job, role: str) -> OrtModel:
        names = [name for name in ATTRIBUTES if name == "clip" or job.optimizer == "adamw"]
        hyper = {name: job.scalar(f"{role}.{name}") for name in names}
        slots = {slot: job.slots[f"{role}.{slot}"] for slot in SLOTS[job.optimizer] if f"{role}.{slot}" in job.slots}
        model = OrtModel(self._artifacts, job.models[role], job.optimizer, hyper, job.weights[role], slots, job.steps)
        model.set_rate(job.scalar(f"{role}.rate"))
        return model


class ArtifactTraining:
    """A job whose models each take one step of onnxruntime-training on every batch, with the other one's logits.

    Parameters
    ----------
    job
        What to train.
    models
        The loaded models by role.
    """

    def __init__(self, job: Job, models: Mapping[str, OrtModel]) -> None:
        self.steps = job.steps
        self._job, self._models = job, models
        batches = {model.batch for model in models.values()}
        if len(batches) > 1:
            raise PackError("The files of the models for the runtime ort-training have batches of different sizes.")
        self.batch: int = batches.pop()
        shared = LOSS_SCALARS if len(models) == 2 else ()
        self._scalars: dict[str, Array] = {name: np.array(job.scalar(name), np.float32) for name in shared}

    def step(self, batch: Mapping[str, Array]) -> dict[str, float]:
        """Train on one batch; learning rates and the loss's scalars that stand in it hold from this step on."""
        self._change({name: value for name, value in batch.items() if name not in ("x", "target", "weight")})
        x, target, weight = batch["x"], batch["target"], batch["weight"]
        self.steps += 1
        if len(self._models) == 1:
            return {"loss": self._train_supervised(x, target, weight)}
        return self._mutual(x, target, weight)

    def _change(self, values: Mapping[str, Array]) -> None:
        for name, value in values.items():
            role, _, scalar = name.partition(".")
            if name in self._scalars:
                self._scalars[name] = np.asarray(value, np.float32)
            elif role in self._models and scalar == "rate":
                self._models[role].set_rate(float(value))
            else:
                raise AuricleError(f"The runtime ort-training cannot change {name} between two steps.")

    def _train_supervised(self, x: Array, target: Array, weight: Array) -> float:
        loss, _ = self._models["model"].train(x, target, target, weight, _ONE, _ZERO, _ONE)
        return loss

    def _mutual(self, x: Array, target: Array, weight: Array) -> dict[str, float]:
        """FedMLAC, eq. 5-8: the local model learns from the plug-in's logits before the step; the plug-in from the
        local model's before it (simultaneous) or after it (alternating)."""
        local, plugin = self._models["local"], self._models["plugin"]
        alpha, plugin_ce, temperature = (self._scalars[name] for name in LOSS_SCALARS)

        def inputs(teacher: Array, ce: Array, kl: Array) -> tuple[Array, ...]:
            return x, target, teacher, weight, ce, kl, temperature

        taught = plugin.logits(*inputs(target, _ZERO, _ZERO))
        loss_local, seen = local.train(*inputs(taught, alpha, np.asarray(1 - alpha, np.float32)))
        if self._job.kind == "alternating":
            seen = local.logits(*inputs(target, _ZERO, _ZERO))
        loss_plugin, _ = plugin.train(*inputs(seen, plugin_ce, _ONE))
        return {"loss.local": loss_local, "loss.plugin": loss_plugin}

    def weights(self, role: str) -> Flat:
        """The weights (P,) of a role as they are now."""
        return self._models[role].weights()

    def maps(self, role: str) -> Flat:
        """None: this runtime drops no activations."""
        return np.zeros(0, np.float32)

    def slots(self) -> dict[str, Flat]:
        """The optimizer vectors (P,) by `role.slot` as they are now."""
        return {f"{role}.{slot}": v for role, model in self._models.items() for slot, v in model.slots().items()}


_ZERO, _ONE = np.zeros((), np.float32), np.ones((), np.float32)
