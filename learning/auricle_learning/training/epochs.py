"""The steps of a pass: one batch after the other, several in one call where runtime and caller can do that."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.wire.tensors import Flat
from auricle_learning.runtimes.interface import Array, ManySteps, Training

MOST_WAITING = 1 << 20
"""Bytes of batches that are made before they are trained on: four of 16 clips of a second."""
NOT_FINITE = "The loss is not finite: the learning rate is too high or the clips are damaged."
Batch = Mapping[str, Array]


class TrainingStopped(AuricleError):  # noqa: N818 - not an error: somebody asked for it
    """The round was aborted or a newer one began."""


@runtime_checkable
class Flagged(Protocol):
    """A checkpoint that says beforehand that it is worth asking."""

    flag: NDArray[np.int32]
    """One number (1,): other than 0 while it would wait, raise or stop."""


def steps(
    training: Training, batches: Iterable[Batch], checkpoint: Callable[[], bool]
) -> Iterator[tuple[Batch, dict[str, float]]]:
    """Train on batches in their order, and give each with its losses.

    Parameters
    ----------
    training
        The job under way. Where it is one of `ManySteps`, several batches are one call.
    batches
        Those of an epoch.
    checkpoint
        Asked before every batch. One that is `Flagged` is asked before several at once, and when its flag is set, after
        which no step is begun before it was asked.

    Raises
    ------
    TrainingStopped
        The checkpoint said so.
    """
    if not (hasattr(checkpoint, "flag") and isinstance(checkpoint, Flagged) and isinstance(training, ManySteps)):
        for batch in batches:
            _ask(checkpoint)
            yield batch, training.step(batch)
        return
    for waiting in _pieces(batches):
        while waiting:
            _ask(checkpoint)
            losses = training.step_through(waiting, checkpoint.flag)
            yield from zip(waiting, losses, strict=False)
            waiting = waiting[len(losses) :]


def train(
    training: Training, epochs: int, epoch: Callable[[], Iterable[Batch]], checkpoint: Callable[[], bool]
) -> bool:
    """Train on every batch of every epoch.

    Parameters
    ----------
    epoch
        Gives one epoch's batches at each call.
    training, checkpoint
        As of `steps`.

    Returns
    -------
    bool
        Whether one of them had a clip with a label, or one to be sure of.

    Raises
    ------
    TrainingStopped
        As of `steps`.
    AuricleError
        A loss is not finite.
    """
    learnt = False
    for _ in range(epochs):
        for batch, losses in steps(training, epoch(), checkpoint):
            if not all(map(math.isfinite, losses.values())):
                raise AuricleError(NOT_FINITE)
            learnt |= bool(losses.get("confident", 1.0) or batch["weight"].any())
    return learnt


def weights_after(training: Training, roles: Iterable[str]) -> dict[str, Flat]:
    """What a training made of its models (P,), by role; AuricleError where a weight is not finite."""
    final = {role: training.weights(role) for role in roles}
    if not all(np.isfinite(weights).all() for weights in final.values()):
        raise AuricleError(NOT_FINITE)
    return final


def _ask(checkpoint: Callable[[], bool]) -> None:
    if checkpoint():
        raise TrainingStopped("The round was stopped.")


def _pieces(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Batches in lists of so many as may wait, at least one, all of which have the same inputs."""
    made: list[Batch] = []
    for batch in batches:
        size = sum(value.nbytes for value in batch.values())
        if made and (batch.keys() != made[0].keys() or (len(made) + 1) * size > MOST_WAITING):
            yield made
            made = []
        made.append(batch)
    if made:
        yield made
