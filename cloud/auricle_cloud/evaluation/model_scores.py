"""What a model is worth on a validation set: the share that is right, and the loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_cloud.aggregation.cohort import Float64Array, FloatArray

BATCH = 64
"""Samples that a model recognises at once."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What each of M models is worth."""

    accuracy: Float64Array
    """(M,) share of the samples whose largest logit is their label; one whose logits hold NaN is wrong."""
    loss: Float64Array
    """(M,) mean cross-entropy in nats; not finite for a model whose logits are not."""


def check_models(models: FloatArray, size: int) -> NDArray[np.float32]:
    """Return models (M, P) as contiguous float32; DataError where they are not models of this size."""
    if models.ndim != 2 or models.shape[1] != size:
        raise DataError(f"models to judge must be rows of {size} weights, not an array {models.shape}.")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(models, np.float32)


def tally(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> tuple[int, float]:
    """Count what is right among logits (N, C) and add up the cross-entropy in float64."""
    z = logits.astype(np.float64)
    right = (z.argmax(axis=1) == targets) & ~np.isnan(z).any(axis=1)
    with np.errstate(invalid="ignore"):
        z -= z.max(axis=1, keepdims=True)
        losses = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), targets]
    return int(right.sum()), float(losses.sum())
