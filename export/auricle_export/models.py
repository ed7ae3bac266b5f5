"""The five CRNNs of FedMLAC's Table 3 as one parametrised module.

Each is a stack of (Conv1d, ReLU, max-pool by two) blocks over time, a GRU, and a linear classifier on the GRU's last
state (both directions' last states for a bidirectional one). The paper fixes the five roles (a base model, three
variations of it, and the light plug-in); the widths here are this project's, so that the plug-in has about 28,000
weights for 35 labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

MELS = 40
FRAMES = 100


@dataclass(frozen=True)
class CrnnShape:
    """What tells one CRNN from another."""

    channels: tuple[int, ...]
    """Output channels of each convolution block (kernel 3, padding 1)."""
    hidden: int
    """Hidden units of the GRU in each direction."""
    layers: int = 1
    """Stacked GRU layers."""
    bidirectional: bool = False


ARCHITECTURES: dict[str, CrnnShape] = {
    "crnn-base": CrnnShape((64, 64), 64, bidirectional=True),
    "crnn-wide": CrnnShape((96, 96), 96, bidirectional=True),
    "crnn-deep": CrnnShape((48, 64, 64), 64, bidirectional=True),
    "crnn-stacked": CrnnShape((64, 64), 64, layers=2),
    "crnn-lite": CrnnShape((32, 32), 64),
}
PLUGIN = "crnn-lite"
LOCALS = tuple(ARCHITECTURES)


class Crnn(nn.Module):
    """A keyword classifier: log-mels (B, T, mels) to logits (B, labels).

    Parameters
    ----------
    shape
        Widths and depths, one of `ARCHITECTURES` or your own.
    labels
        Number of labels.
    mels
        Mel bands of the input.
    """

    def __init__(self, shape: CrnnShape, labels: int, mels: int = MELS) -> None:
        super().__init__()
        widths = (mels, *shape.channels)
        self.shape = shape
        self.conv = nn.ModuleList(nn.Conv1d(a, b, 3, padding=1) for a, b in pairwise(widths))
        self.gru = nn.GRU(widths[-1], shape.hidden, shape.layers, bidirectional=shape.bidirectional)
        self.head = nn.Linear(shape.hidden * (2 if shape.bidirectional else 1), labels)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, labels) for log-mels (B, T, mels)."""
        h = x.transpose(1, 2)
        for conv in self.conv:
            h = torch.max_pool1d(torch.relu(conv(h)), 2)
        _, last = self.gru(h.permute(2, 0, 1))
        directions = 2 if self.shape.bidirectional else 1
        return self.head(torch.cat(list(last[-directions:]), dim=1))  # type: ignore[no-any-return]
