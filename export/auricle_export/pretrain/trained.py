"""What a central training tells: its epochs, what a model came to, how many clips of each word it names rightly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from auricle.errors import AuricleError
from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat, TensorTable

if TYPE_CHECKING:
    from auricle_export.pretrain.speech import Part


_BATCH = 256
TEMPERATURE = 8.0
"""By what a head's last layer is divided once it is trained. Over a network that heard much speech it is so sure that
posteriors of its hits and of its worst false accepts are both 1.0000, between which no threshold can be written down;
divided, they spread, and keep their order window by window."""


@dataclass(frozen=True)
class Score:
    """Clips of one word."""

    right: int
    of: int


def mean_of_words(scores: Mapping[str, Score]) -> float:
    """Mean over the words of the share of their clips that are right: each word counts the same, however rare."""
    return sum(score.right / score.of for score in scores.values()) / len(scores)


def logits_of(module: nn.Module, frontend: LogMel, part: Part, device: torch.device) -> Tensor:
    """What a model says of some speakers' clips as they were recorded: (N, labels) on the CPU."""
    module.eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(part), _BATCH):
            x = torch.from_numpy(frontend.finish(part.energies[start : start + _BATCH]))
            found.append(module(x.to(device)).cpu())
    return torch.cat(found)


def scores_of(
    module: nn.Module, frontend: LogMel, part: Part, labels: Sequence[str], device: torch.device
) -> dict[str, Score]:
    """Clips that are named rightly, by word; words that nobody of the part says are left out."""
    named = logits_of(module, frontend, part, device).argmax(dim=1).numpy()
    scores = {}
    for place, label in enumerate(labels):
        clips = part.targets == place
        if clips.any():
            scores[label] = Score(int((named[clips] == place).sum()), int(clips.sum()))
    return scores


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


def cool(trained: Trained, table: TensorTable) -> Trained:
    """A trained head whose last layer is divided by `TEMPERATURE`: the same order of labels, posteriors that spread."""
    weights = trained.weights.copy()
    for part in table.parts(weights)[1:]:
        part /= TEMPERATURE
    return replace(trained, weights=weights.astype(np.float16).astype(np.float32))
