"""BC-ResNet as its authors publish it (Kim et al. 2021, https://arxiv.org/abs/2106.04140).

Sub-spectral normalisation by reshaping, a mean over frequency that keeps time, activations in place, and a 1x1
convolution on 1x1 maps as the classifier.
"""

from __future__ import annotations

import torch
from torch import nn


class SubSpectralNorm(nn.Module):
    """Batch normalisation of each band of frequency by itself: (B, C, F, T) as (B, C bands, F / bands, T)."""

    def __init__(self, channels: int, bands: int = 5) -> None:
        super().__init__()
        self.bands = bands
        self.norm = nn.BatchNorm2d(channels * bands)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.size()
        folded = x.view(batch, channels * self.bands, height // self.bands, width)
        return self.norm(folded).view(batch, channels, height, width)


class BroadcastedBlock(nn.Module):
    """f2 over frequency, f1 over time on the mean over frequency, which is broadcast back: x + f2(x) + f1(mean)."""

    def __init__(self, width_in: int, width: int, stride: int, dilation: int, bands: int = 5) -> None:
        super().__init__()
        self.is_transition = width_in != width
        widen: list[nn.Module] = []
        if self.is_transition:
            widen = [nn.Conv2d(width_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        depthwise = nn.Conv2d(width, width, (3, 1), stride=(stride, 1), padding=(1, 0), groups=width, bias=False)
        self.f2 = nn.Sequential(*widen, depthwise, SubSpectralNorm(width, bands))
        self.pool = nn.AdaptiveAvgPool2d((1, None))
        self.f1 = nn.Sequential(
            nn.Conv2d(width, width, (1, 3), padding=(0, dilation), dilation=(1, dilation), groups=width, bias=False),
            nn.BatchNorm2d(width),
            nn.SiLU(inplace=True),
            nn.Conv2d(width, width, 1, bias=False),
            nn.Dropout2d(0.1),
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x
        x = self.f2(x)
        out = self.f1(self.pool(x)) + x
        if not self.is_transition:
            out += shortcut
        return self.relu(out)


class ReferenceBcResNet(nn.Module):
    """Four stages of 2, 2, 4 and 4 blocks; `width` is the paper's tau times 8."""

    def __init__(self, num_classes: int, width: int = 8, blocks: tuple[int, ...] = (2, 2, 4, 4)) -> None:
        super().__init__()
        widths = [width * 2, width, width * 3 // 2, width * 2, width * 5 // 2, width * 4]
        self.stem = nn.Sequential(
            nn.Conv2d(1, widths[0], 5, stride=(2, 1), padding=2, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(inplace=True),
        )
        stages: list[nn.Module] = []
        for stage, count in enumerate(blocks):
            for block in range(count):
                width_in = widths[stage] if block == 0 else widths[stage + 1]
                stride = 2 if block == 0 and stage in (1, 2) else 1
                stages.append(BroadcastedBlock(width_in, widths[stage + 1], stride, 2**stage))
        self.blocks = nn.Sequential(*stages)
        self.classifier = nn.Sequential(
            nn.Conv2d(widths[-2], widths[-2], 5, padding=(0, 2), groups=widths[-2], bias=False),
            nn.Conv2d(widths[-2], widths[-1], 1, bias=False),
            nn.BatchNorm2d(widths[-1]),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d((1, 1)),
            nn.Conv2d(widths[-1], num_classes, 1),
        )

    def forward(self, log_mels: torch.Tensor) -> torch.Tensor:
        x = self.stem(log_mels.transpose(1, 2).unsqueeze(1))
        x = self.classifier(self.blocks(x))
        return x.view(-1, x.shape[1])
