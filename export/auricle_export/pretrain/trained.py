"""What a central training tells: its epochs, what a model came to, and that somebody ended it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auricle.errors import AuricleError
from auricle.wire.tensors import Flat
from auricle_export.pretrain.scores import Score, mean_of_words


class TrainingInterrupted(AuricleError):  # noqa: N818 - not an error: somebody asked for it
    """The training was asked to stop; what its last whole epoch gave is kept."""

    exit_code = 130


@dataclass(frozen=True)
class Epoch:
    """A finished epoch, for a watch."""

    model: str
    number: int
    epochs: int
    loss: float
    validation_accuracy: float
    validation_loss: float
    best_epoch: int
    seconds: float
    """Of this model's training so far."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model."""

    weights: Flat
    """(P,) in the order of the pack's table, rounded to what a float16 holds."""
    accuracy: float
    """Of these rounded weights, on the test speakers."""
    judged_clips: int
    epochs: int
    """Epochs trained."""
    best_epoch: int
    """The one whose weights these are."""
    validation_accuracy: float
    seconds: float
    scores: Mapping[str, Score] = field(default_factory=dict)
    """By word, of the test speakers' clips; empty where words are judged on streams."""

    @property
    def word_mean(self) -> float:
        """Mean over the words of the share of their clips that are right."""
        return mean_of_words(self.scores)
