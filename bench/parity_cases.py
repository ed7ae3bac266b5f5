"""What is compared: every loss with every optimizer, the jobs that mean them, and the batches they train on.

Needs no PyTorch, so that onnxruntime-training's environment can build the same jobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.packs.pack import Pack
from auricle_learning.runtimes import Job, StepRuntime

Array = NDArray[Any]
Batch = dict[str, Array]
DISTINCT = 25
"""Batches; longer runs begin again with the first."""


@dataclass(frozen=True)
class Loss:
    """A row's loss."""

    kind: str
    scalars: Mapping[str, float] = field(default_factory=dict)
    terms: tuple[str, ...] = ()


_MUTUAL = {"alpha": 0.3, "plugin_ce": 0.7}
LOSSES: dict[str, Loss] = {
    "supervised": Loss("supervised"),
    "mutual, T = 1": Loss("mutual", {**_MUTUAL, "temperature": 1.0}),
    "mutual, T = 2": Loss("mutual", {**_MUTUAL, "temperature": 2.0}),
    "alternating, T = 2": Loss("alternating", {**_MUTUAL, "temperature": 2.0}),
    "fixmatch": Loss("fixmatch", {"lambda": 0.8}),
    "distill": Loss("distill", {"beta": 1.7}),
    "supervised, drift": Loss("supervised", {}, ("drift",)),
    "supervised, freeze": Loss("supervised", {}, ("freeze",)),
}
OPTIMIZERS: dict[str, tuple[str, dict[str, float]]] = {
    "sgd": ("sgd", {"rate": 0.05, "momentum": 0.9, "decay": 1e-3, "clip": 0.5}),
    "adamw": ("adamw", {"rate": 1e-3, "decay": 1e-2, "clip": 0.5}),
    "adam, l2": ("adamw", {"rate": 1e-3, "l2": 1e-3, "clip": 0.5}),
    "sgd, plain": ("sgd", {"rate": 0.05, "clip": 0.5}),
}
"""Which graph, and with what; `plain` is all that onnxruntime-training's SGD knows."""
LEARNT_BY_ORT = ("supervised", "mutual, T = 1", "mutual, T = 2", "alternating, T = 2")


@dataclass(frozen=True)
class Case:
    """One model, loss and optimizer."""

    model: str
    loss: str
    optimizer: str

    @property
    def name(self) -> str:
        """Tells it from the others."""
        return f"{self.model}; {self.loss}; {self.optimizer}"


def cases(model: str) -> list[Case]:
    """All of a model."""
    return [
        Case(model, loss, optimizer)
        for loss in LOSSES
        for optimizer in OPTIMIZERS
        if optimizer != "sgd, plain" or loss in LEARNT_BY_ORT
    ]


def roles(case: Case, pack: Pack) -> dict[str, str]:
    """Architectures by role."""
    if LOSSES[case.loss].kind in ("mutual", "alternating"):
        return {"local": case.model, "plugin": pack.manifest.plugin}
    return {"model": case.model}


def job(case: Case, pack: Pack, *, bare: bool = False) -> Job:
    """The job of a case; `bare`: one whose optimizer state after one step is the gradient (no momentum, no clipping).

    Weights are PyTorch's initialisation. With AdamW, beta1 = 0 makes its first vector the gradient, and a large epsilon
    keeps the step, which alternating learning sees, from hanging on the sign of gradients near 0.
    """
    loss, models = LOSSES[case.loss], roles(case, pack)
    optimizer, hyper = OPTIMIZERS[case.optimizer]
    if bare:
        hyper = {"rate": hyper["rate"], **({"beta1": 0.0, "epsilon": 1e-2} if optimizer == "adamw" else {})}
    scalars = {f"{role}.{name}": value for role in models for name, value in hyper.items()}
    tables = {role: pack.table(model) for role, model in models.items()}
    vectors: dict[str, Any] = {}
    rng = np.random.default_rng(11)
    if "drift" in loss.terms:
        scalars["model.mu"] = 0.3
        vectors["model.anchor"] = tables["model"].initial(7)
        vectors["model.linear"] = 0.01 * tables["model"].initial(8)
    if "freeze" in loss.terms:
        vectors["model.keep"] = (rng.random(tables["model"].size) < 0.7).astype(np.float32)
    inputs: dict[str, Array] = {}
    if loss.kind == "fixmatch":
        vectors["teacher"] = 4 * tables["model"].initial(5)
        scalars["threshold"] = threshold(case, pack, vectors["teacher"])
    if loss.kind == "distill":
        width = tables["model"].specs[-2].shape[1]
        inputs["means"] = rng.standard_normal((len(pack.labels), width)).astype(np.float32)
        inputs["valid"] = (np.arange(len(pack.labels)) % 3 > 0).astype(np.float32)
    return Job(
        kind=loss.kind,
        models=models,
        optimizer=optimizer,
        terms=loss.terms,
        vectors=vectors,
        inputs=inputs,
        weights={role: table.initial(seed) for seed, (role, table) in enumerate(tables.items(), 1)},
        scalars={**scalars, **loss.scalars},
    )


def threshold(case: Case, pack: Pack, teacher: Array) -> float:
    """A threshold far from every confidence of the teacher: whether a sample counts must not hang on rounding."""
    weak = np.concatenate([batch["weak"] for batch in batches(pack, "fixmatch")])
    logits = StepRuntime(pack).logits(case.model, teacher, weak).astype(np.float64)
    shares = np.exp(logits - logits.max(1, keepdims=True))
    sure = np.sort((shares / shares.sum(1, keepdims=True)).max(1))
    middle = sure[len(sure) // 3 : 2 * len(sure) // 3]
    return float(max((b - a, (a + b) / 2) for a, b in pairwise(middle))[1])


def batches(pack: Pack, kind: str, count: int = DISTINCT) -> list[Batch]:
    """Batches that can be learnt: every label has a pattern, under noise of its own size; some are not full."""
    rng = np.random.default_rng(0)
    task, labels = pack.manifest.task, len(pack.labels)
    shape = (task.frames, task.frontend.mels)
    patterns = rng.standard_normal((labels, *shape))
    batch = next(graph.batch for graph in pack.manifest.graphs if graph.batch is not None)
    assert batch is not None
    made = []
    for number in range(count):
        targets = rng.integers(0, labels, batch)

        def noisy(chosen: Sequence[int] | Array) -> Array:
            return (patterns[chosen] + rng.standard_normal((batch, *shape))).astype(np.float32)

        full = batch - 5 if number % 3 == 1 else batch
        one: Batch = {
            "x": noisy(targets),
            "target": np.eye(labels, dtype=np.float32)[targets],
            "weight": (np.arange(batch) < full).astype(np.float32),
        }
        if kind == "fixmatch":
            hidden = rng.integers(0, labels, batch)
            one |= {"weak": noisy(hidden), "strong": noisy(hidden)}
            one["weight.unlabelled"] = (np.arange(batch) < batch - number % 4).astype(np.float32)
        made.append(one)
    return made


def clip_of(given: Job, role: str) -> float:
    """The largest norm of a role's gradient."""
    return given.scalars.get(f"{role}.clip", math.inf)
