"""MatchboxNet (Majumdar and Ginsburg 2020, https://arxiv.org/abs/2004.08531): 1-D time-channel separable convolutions.

Its last layer is a 1x1 convolution to the words, of which the mean over time is taken.
"""

from __future__ import annotations

import torch
from torch import nn


def separable(width_in: int, width: int, kernel: int, dilation: int = 1, stride: int = 1) -> list[nn.Module]:
    """A depthwise convolution over time, a pointwise one, batch normalisation."""
    padding = dilation * (kernel - 1) // 2
    return [
        nn.Conv1d(width_in, width_in, kernel, stride, padding, dilation, groups=width_in, bias=False),
        nn.Conv1d(width_in, width, 1, bias=False),
        nn.BatchNorm1d(width),
    ]


class ResidualBlock(nn.Module):
    """R sub-blocks, the last of which is added to a pointwise convolution of the input before its activation."""

    def __init__(self, width_in: int, width: int, kernel: int, repeats: int, dropout: float = 0.1) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for place in range(repeats):
            layers += separable(width_in if place == 0 else width, width, kernel)
            if place < repeats - 1:
                layers += [nn.ReLU(inplace=True), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers)
        self.residual = nn.Sequential(nn.Conv1d(width_in, width, 1, bias=False), nn.BatchNorm1d(width))
        self.out = nn.Sequential(nn.ReLU(inplace=True), nn.Dropout(dropout))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layers(x) + self.residual(x))


class MatchboxNet(nn.Module):
    """MatchboxNet-B x R x C, here 3 x 2 x 64 in small."""

    def __init__(self, num_classes: int, width: int = 32, repeats: int = 2) -> None:
        super().__init__()
        layers: list[nn.Module] = [*separable(40, 2 * width, 11, stride=2), nn.ReLU(inplace=True)]
        width_in = 2 * width
        for kernel in (13, 15, 17):
            layers.append(ResidualBlock(width_in, width, kernel, repeats))
            width_in = width
        layers += [*separable(width, 2 * width, 29, dilation=2), nn.ReLU(inplace=True)]
        layers += [nn.Conv1d(2 * width, 2 * width, 1, bias=False), nn.BatchNorm1d(2 * width), nn.ReLU(inplace=True)]
        self.encoder = nn.Sequential(*layers)
        self.decoder = nn.Conv1d(2 * width, num_classes, 1)
        self.pool = nn.AdaptiveAvgPool1d(1)

    def forward(self, log_mels: torch.Tensor) -> torch.Tensor:
        scores = self.decoder(self.encoder(log_mels.transpose(1, 2)))
        return self.pool(scores).squeeze(-1)
