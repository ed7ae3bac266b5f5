"""What is made of logits: posteriors, the loss on labels, and the share that is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.wire.tensors import Flat
from auricle_edge.runtimes.interface import Runtime


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Posteriors of logits (N, L)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    posteriors: NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    return posteriors


def recogniser(runtime: Runtime, model: str, weights: Flat) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Posteriors (N, L) of log-mels (N, T, mels) by one model and its weights (P,)."""
    return lambda features: softmax(runtime.logits(model, weights, features))


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
