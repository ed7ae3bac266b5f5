"""What a coordinator lends to devices to tune their classifiers, and the gradients that they say: MuPFL's PKCF.

A classifier is W (C, d) and b (C,), the last C d + C weights of a model, the weights first. The gradient of the mean
cross-entropy on one class's features with respect to it is a vector in the same order; a device says one for each
class, zeros for those that it has no clips of (docs/algorithms.md, section 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from auricle.errors import WireError
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.tensors import Flat, decode, encode

Float64Array = NDArray[np.float64]

MOST_EPOCHS, MOST_FEATURES = 200, 1000
"""Epochs that a classifier may be tuned for, and features of each class that it is tuned on."""
MOST_CLASSES = 1 << 14
"""Of a classifier that is tuned: what is lent names some of them, and is refused before more are read."""
BATCH_FEATURES = 64
"""Features of a step on a classifier, as of MuPFL's training."""
_ROUNDING = 1e-6


class Tuning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a device tunes its classifier at the start of a round."""

    features: Annotated[int, Meta(ge=1, le=MOST_FEATURES)]
    """m, of each class."""
    epochs: Annotated[int, Meta(ge=1, le=MOST_EPOCHS)]
    """τ."""
    rate: Annotated[float, Meta(gt=0, le=10)]


class _Sent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    classes: Annotated[int, Meta(ge=1, le=MOST_CLASSES)]
    width: Annotated[int, Meta(ge=1, le=1 << 20)]
    labels: Annotated[tuple[Annotated[int, Meta(ge=0, lt=MOST_CLASSES)], ...], Meta(max_length=MOST_CLASSES)]
    tuning: Tuning
    values: bytes


@dataclass(frozen=True, eq=False)
class PriorKnowledge:
    """The coordinator's classifier, and features that stand for what all devices have of each class."""

    classifier: Flat
    """(C d + C,) v_glo, at which devices take their gradients."""
    labels: tuple[int, ...]
    """Classes that anything is known of, ascending."""
    features: Flat
    """(S, m, d) H, those of each of these classes; S is 0 before the first gradients have come."""
    tuning: Tuning

    @property
    def classes(self) -> int:
        """C."""
        return int(self.classifier.size // (self.features.shape[2] + 1))

    def to_bytes(self) -> bytes:
        """Write it for `from_bytes`; WireError where a value is not finite."""
        values = encode(np.concatenate([self.classifier, self.features.ravel()]))
        width = self.features.shape[2]
        sent = _Sent(classes=self.classes, width=width, labels=self.labels, tuning=self.tuning, values=values)
        return msgspec.msgpack.encode(sent)

    @classmethod
    def from_bytes(cls, data: bytes, classes: int, width: int) -> PriorKnowledge:
        """Read what `to_bytes` wrote for a classifier of C `classes` and d `width`.

        Raises
        ------
        WireError
            It is damaged, of another classifier, or a value is not finite.
        """
        try:
            sent = msgspec.msgpack.decode(data, type=_Sent)
        except UNDECODABLE as error:
            raise WireError("What the coordinator lends to tune a classifier cannot be read.") from error
        fits = (sent.classes, sent.width) == (classes, width) and len(sent.labels) <= classes
        ascending = fits and all(low < high for low, high in zip(sent.labels, sent.labels[1:], strict=False))
        if not ascending or (sent.labels or (0,))[-1] >= classes:
            raise WireError(f"What the coordinator lends to tune a classifier is not of one of {classes} x {width}.")
        size, shape = classes * width + classes, (len(sent.labels), sent.tuning.features, width)
        values = decode(sent.values, size + shape[0] * shape[1] * shape[2])
        return cls(values[:size], sent.labels, values[size:].reshape(shape), sent.tuning)


def gradients_size(classes: int, width: int) -> int:
    """How many numbers a device's gradients of a classifier have, C (C d + C)."""
    return classes * (classes * width + classes)


def split_classifier(values: NDArray[Any], classes: int) -> tuple[Float64Array, Float64Array]:
    """W (C, d) and b (C,) of a classifier (C d + C,)."""
    return values[:-classes].reshape(classes, -1).astype(np.float64), values[-classes:].astype(np.float64)


def posteriors(features: Float64Array, weight: Float64Array, bias: Float64Array) -> Float64Array:
    """softmax(W h + b) (m, C) of features (m, d)."""
    logits = features @ weight.T + bias
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


def class_gradient(features: Float64Array, label: int, weight: Float64Array, bias: Float64Array) -> Float64Array:
    """Gradient (C d + C,) with respect to W and b of the mean cross-entropy on one class's features (m, d) (eq. 16)."""
    errors = posteriors(features, weight, bias)
    errors[:, label] -= 1.0
    return np.concatenate([(errors.T @ features / len(features)).ravel(), errors.mean(axis=0)])


def in_turn(features: NDArray[Any], labels: Sequence[int]) -> tuple[Float64Array, NDArray[np.int64]]:
    """Features (S, m, d) of S classes as (S m, d) with their labels: one of each class, and then the next of each."""
    rows = features.transpose(1, 0, 2).reshape(-1, features.shape[2]).astype(np.float64)
    return rows, np.tile(np.array(labels, np.int64), features.shape[1])


def classifier_epoch(
    weight: Float64Array, bias: Float64Array, features: Float64Array, labels: NDArray[np.int64], rate: float
) -> tuple[Float64Array, Float64Array]:
    """W and b after an epoch of gradient descent, v <- v - rate ∇ mean CE, `BATCH_FEATURES` features a step in order.

    Parameters
    ----------
    weight, bias
        W (C, d) and b (C,).
    features, labels
        (N, d) and (N,), see `in_turn`.
    rate
        Learning rate.
    """
    for start in range(0, len(features), BATCH_FEATURES):
        batch, target = features[start : start + BATCH_FEATURES], labels[start : start + BATCH_FEATURES]
        errors = posteriors(batch, weight, bias)
        errors[np.arange(len(batch)), target] -= 1.0
        weight, bias = weight - rate * (errors.T @ batch / len(batch)), bias - rate * errors.mean(axis=0)
    return weight, bias


def require_gradients(values: Flat, classes: int, largest: float) -> None:
    """Refuse gradients of a classifier that none has.

    Parameters
    ----------
    values
        (C (C d + C),) finite ones as they came, a class after the other.
    classes
        C.
    largest
        What no feature of a model reaches, and so no gradient with respect to W.

    Raises
    ------
    WireError
        A number is too large: with respect to b each is a difference of two probabilities.
    """
    rows = np.abs(values.reshape(classes, -1))
    if rows.max(initial=0.0) > largest or rows[:, -classes:].max(initial=0.0) > 1 + _ROUNDING:
        raise WireError("A gradient is larger than one of a classifier can be.")
