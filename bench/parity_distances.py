"""How far a runtime's gradients, and its weights after many steps, are from PyTorch's in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from auricle.packs.graph_interface import SLOTS
from auricle.wire.tensors import Flat, TensorTable
from auricle_learning.runtimes import Job, Runtime, Training
from bench.parity_cases import Array, Batch
from bench.parity_reference import SHIPPED, Authors, Reference

Tensors = dict[str, dict[str, Array]]
"""By role and tensor."""


@dataclass(frozen=True)
class Distances:
    """The largest relative distance of any tensor from float64."""

    ours: float
    float32: float
    """Of PyTorch itself in single precision."""
    exact: Tensors
    """What they are distances from."""
    losses: tuple[dict[str, float], dict[str, float]]
    """The last step's, ours and those of float64."""
    moved: float = 0.0
    """Of the weights in the beginning."""
    others: tuple[float, ...] = ()
    """Of further runtimes, in their order."""


def distance(found: Mapping[str, Array], due: Mapping[str, Array]) -> float:
    """The largest ||a - b|| / ||b|| of any tensor."""
    return max(
        float(np.linalg.norm(found[name].astype(np.float64) - value) / max(np.linalg.norm(value), 1e-300))
        for name, value in due.items()
    )


def tensors(table: TensorTable, flat: Flat) -> dict[str, Array]:
    """A flat vector (P,) by tensor."""
    return {spec.name: table.tensor(flat, spec.name) for spec in table.specs}


def farthest(found: Tensors, due: Tensors) -> float:
    """The largest distance of any role's tensors."""
    return max(distance(found[role], due[role]) for role in due)


def by_role(given: Job, runtime: Runtime, vectors: Mapping[str, Flat]) -> Tensors:
    """Flat vectors by role, cut into tensors."""
    return {role: tensors(runtime.pack.table(model), vectors[role]) for role, model in given.models.items()}


@dataclass(frozen=True)
class _Run:
    """A job in every runtime and in PyTorch, after so many steps."""

    trainings: list[Training]
    exact: Reference
    single: Reference
    losses: tuple[dict[str, float], dict[str, float]]


def _run(given: Job, runtimes: Sequence[Runtime], authors: Authors, made: Sequence[Batch], steps: int) -> _Run:
    exact, single = (Reference(given, runtimes[0].pack, kind, authors) for kind in (torch.float64, torch.float32))
    trainings = [runtime.begin(given) for runtime in runtimes]
    losses: list[dict[str, float]] = []
    for number in range(steps):
        batch = made[number % len(made)]
        losses = [one.step(batch) for one in (*trainings, exact, single)]
    return _Run(trainings, exact, single, (losses[0], losses[-2]))


def gradients(
    given: Job, batch: Batch, runtime: Runtime, authors: Authors = SHIPPED, others: Sequence[Runtime] = ()
) -> Distances:
    """Of the gradients of a job whose optimizer state after one step is the gradient (`parity_cases.job`, `bare`)."""
    run, slot = _run(given, [runtime, *others], authors, [batch], 1), SLOTS[given.optimizer][0]
    due = run.exact.gradients

    def far(training: Training) -> float:
        slots = training.slots()
        return farthest(by_role(given, runtime, {role: slots[f"{role}.{slot}"] for role in given.models}), due)

    ours, *theirs = map(far, run.trainings)
    return Distances(ours, farthest(run.single.gradients, due), due, run.losses, others=tuple(theirs))


def drift(
    given: Job,
    made: Sequence[Batch],
    steps: int,
    runtime: Runtime,
    authors: Authors = SHIPPED,
    others: Sequence[Runtime] = (),
) -> Distances:
    """Of the weights after so many steps; the batches begin again after the last."""
    run = _run(given, [runtime, *others], authors, made, steps)
    due, rounded = ({role: m.weights() for role, m in one.models.items()} for one in (run.exact, run.single))

    def far(training: Training) -> float:
        return farthest(by_role(given, runtime, {role: training.weights(role) for role in given.models}), due)

    ours, *theirs = map(far, run.trainings)
    moved = farthest(by_role(given, runtime, given.weights), due)
    return Distances(ours, farthest(rounded, due), due, run.losses, moved, tuple(theirs))
