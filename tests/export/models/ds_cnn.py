"""Depthwise-separable convolutions over a spectrogram (Zhang et al. 2017, "Hello Edge")."""

import torch
from torch import nn


class Separable(nn.Module):
    """A depthwise 3x3 convolution and a pointwise one, each with batch normalisation and ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class DsCnn(nn.Module):
    """A strided convolution, four separable blocks, a mean over time and frequency, a classifier."""

    def __init__(self, num_classes: int, channels: int = 40, blocks: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, channels, kernel_size=(10, 4), stride=(4, 4), padding=(5, 1), bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
        )
        self.blocks = nn.Sequential(*(Separable(channels) for _ in range(blocks)))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(0.1)
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x.unsqueeze(1))
        x = self.blocks(x)
        x = self.pool(x).flatten(1)
        return self.fc(self.dropout(x))
