"""Broadcasted residual learning (Kim et al. 2021): 2-D features over frequency, 1-D features over time."""

import torch
from torch import nn


class BroadcastBlock(nn.Module):
    """A depthwise convolution over frequency, a mean over it, a temporal branch that is broadcast back."""

    def __init__(self, width_in: int, width: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.change = None
        if width_in != width:
            self.change = nn.Sequential(nn.Conv2d(width_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.frequency = nn.Sequential(
            nn.Conv2d(width, width, (3, 1), stride=(stride, 1), padding=(1, 0), groups=width, bias=False),
            nn.GroupNorm(4, width),
        )
        self.time = nn.Sequential(
            nn.Conv2d(width, width, (1, 3), padding=(0, dilation), dilation=(1, dilation), groups=width, bias=False),
            nn.BatchNorm2d(width),
            nn.SiLU(),
            nn.Conv2d(width, width, 1, bias=False),
            nn.Dropout2d(0.1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        residual = x
        if self.change is not None:
            x = self.change(x)
        x = self.frequency(x)
        out = self.time(x.mean(2, keepdim=True)) + x
        if residual.shape == out.shape:
            out += residual
        return torch.relu(out)


class BcResNet(nn.Module):
    """Mels are the height, frames the width."""

    def __init__(self, num_classes: int, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 5, stride=(2, 2), padding=2, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.stages = nn.ModuleList(
            [
                BroadcastBlock(width, width),
                BroadcastBlock(width, width),
                BroadcastBlock(width, 2 * width, stride=2, dilation=2),
                BroadcastBlock(2 * width, 2 * width, dilation=2),
                BroadcastBlock(2 * width, 3 * width, stride=2, dilation=4),
                BroadcastBlock(3 * width, 3 * width, dilation=4),
            ]
        )
        self.tail = nn.Conv2d(3 * width, 3 * width, (5, 5), padding=(0, 2), groups=3 * width, bias=False)
        self.classifier = nn.Linear(3 * width, num_classes)

    def forward(self, log_mels: torch.Tensor) -> torch.Tensor:
        x = self.stem(log_mels.transpose(1, 2).unsqueeze(1))
        for stage in self.stages:
            x = stage(x)
        x = nn.functional.silu(self.tail(x))
        return self.classifier(x.mean(dim=(2, 3)))
