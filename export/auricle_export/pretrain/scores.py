"""How many clips of each word a model names rightly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from auricle.speech.features import LogMel

if TYPE_CHECKING:
    from auricle_export.pretrain.speech import Part

_BATCH = 256


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
