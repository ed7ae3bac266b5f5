"""A small conformer (Gulati et al. 2020, https://arxiv.org/abs/2005.08100).

Half feed-forward steps around attention and a gated depthwise convolution, each in a residual.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class FeedForward(nn.Module):
    """Layer normalisation, a wider layer with SiLU, back."""

    def __init__(self, width: int, expansion: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, expansion * width),
            nn.SiLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(expansion * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class GatedConvolution(nn.Module):
    """A pointwise convolution, a gated linear unit, a depthwise convolution over time, batch normalisation, SiLU."""

    def __init__(self, width: int, kernel: int = 7, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)
        self.project = nn.Conv1d(width, width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.glu(self.expand(self.norm(x).transpose(1, 2)), dim=1)
        h = F.silu(self.batch_norm(self.depthwise(h)))
        return self.dropout(self.project(h).transpose(1, 2))


class ConformerBlock(nn.Module):
    """x + FF/2, + attention, + convolution, + FF/2, layer normalisation."""

    def __init__(self, width: int, heads: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.first, self.second = FeedForward(width), FeedForward(width)
        self.norm_attention = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.convolution = GatedConvolution(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 0.5 * self.first(x)
        h = self.norm_attention(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        x = x + self.convolution(x)
        x = x + 0.5 * self.second(x)
        return self.norm(x)


class Conformer(nn.Module):
    """A convolution that takes every fourth frame, some blocks, a mean over time, a classifier."""

    def __init__(self, num_classes: int, width: int = 32, blocks: int = 1) -> None:
        super().__init__()
        self.subsample = nn.Sequential(nn.Conv1d(40, width, 5, stride=4, padding=2), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(*(ConformerBlock(width) for _ in range(blocks)))
        self.head = nn.Linear(width, num_classes)

    def forward(self, log_mels: torch.Tensor) -> torch.Tensor:
        x = self.subsample(log_mels.transpose(1, 2)).transpose(1, 2)
        return self.head(self.blocks(x).mean(1))
