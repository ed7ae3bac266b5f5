"""How far a runtime's gradients, and its weights after many steps, are from PyTorch's in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from bench.parity_cases import Array, Batch
from bench.parity_reference import SHIPPED, Authors, Reference

from auricle.packs.graph_interface import SLOTS
from auricle.wire.tensors import Flat, TensorTable
from auricle_learning.runtimes import Job, StepRuntime

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


def by_role(given: Job, runtime: StepRuntime, vectors: Mapping[str, Flat]) -> Tensors:
    """Flat vectors by role, cut into tensors."""
    return {role: tensors(runtime.pack.table(model), vectors[role]) for role, model in given.models.items()}


def _trained(given: Job, runtime: StepRuntime, authors: Authors, made: Sequence[Batch], steps: int) -> list[Any]:
    """The runtime's training and PyTorch's in float64 and float32, after so many steps; and the last losses."""
    both = [Reference(given, runtime.pack, dtype, authors) for dtype in (torch.float64, torch.float32)]
    training = runtime.begin(given)
    trained: list[Any] = [training, *both]
    losses: list[dict[str, float]] = []
    for number in range(steps):
        batch = made[number % len(made)]
        losses = [one.step(batch) for one in trained]
    return [*trained, (losses[0], losses[1])]


def gradients(given: Job, batch: Batch, runtime: StepRuntime, authors: Authors = SHIPPED) -> Distances:
    """Of the gradients of a job whose optimizer state after one step is the gradient (`parity_cases.job`, `bare`)."""
    training, exact, single, losses = _trained(given, runtime, authors, [batch], 1)
    slots, slot = training.slots(), SLOTS[given.optimizer][0]
    ours = by_role(given, runtime, {role: slots[f"{role}.{slot}"] for role in given.models})
    due = exact.gradients
    return Distances(farthest(ours, due), farthest(single.gradients, due), due, losses)


def drift(given: Job, made: Sequence[Batch], steps: int, runtime: StepRuntime, authors: Authors = SHIPPED) -> Distances:
    """Of the weights after so many steps; the batches begin again after the last."""
    training, exact, single, losses = _trained(given, runtime, authors, made, steps)
    due, rounded = ({role: m.weights() for role, m in one.models.items()} for one in (exact, single))
    ours = by_role(given, runtime, {role: training.weights(role) for role in given.models})
    moved = farthest(by_role(given, runtime, given.weights), due)
    return Distances(farthest(ours, due), farthest(rounded, due), due, losses, moved)
