"""What is measured on logits: the loss on labels, and the share that is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


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
