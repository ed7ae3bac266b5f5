"""What turns log-mels into posteriors: one model of a runtime, or the mean of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.tensors import Flat
from auricle_edge.runtimes.interface import Runtime

Features = NDArray[np.float32]
Posteriors = NDArray[np.float32]
Recognise = Callable[[Features], Posteriors]
"""Posteriors (N, labels) of log-mels (N, T, mels)."""


def softmax(logits: NDArray[np.float32]) -> Posteriors:
    """Posteriors of logits (N, L)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    posteriors: Posteriors = powers / powers.sum(axis=1, keepdims=True)
    return posteriors


def recogniser(runtime: Runtime, model: str, weights: Flat) -> Recognise:
    """Recognise with one model and its weights (P,)."""
    return lambda features: softmax(runtime.logits(model, weights, features))


def ensemble(parts: Sequence[Recognise]) -> Recognise:
    """Recognise by the mean of the posteriors of several."""

    def recognise(features: Features) -> Posteriors:
        mean: Posteriors = np.mean([part(features) for part in parts], axis=0, dtype=np.float32)
        return mean

    return recognise
