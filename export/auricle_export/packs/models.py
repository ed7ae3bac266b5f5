"""The built-in models: the five CRNNs of FedMLAC's table 3, those of the wheel's packs, and residual networks.

Each CRNN is a stack of (Conv1d, ReLU, max-pool by two) blocks over time, a GRU, and a linear classifier on the GRU's
last state (both directions' last states for a bidirectional one).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from auricle_export.compiler.layers import Bavd

if TYPE_CHECKING:  # peers of `bench/engines.py` have this module and nothing of core
    from auricle.wire.tensors import TensorTable

USUAL_MELS = 40


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
    "crnn-tiny": CrnnShape((16,), 32),
    "crnn-lite": CrnnShape((32, 32), 64),
    "crnn-mid": CrnnShape((32, 32, 32), 64),
    "crnn-base": CrnnShape((64, 64), 128, bidirectional=True),
    "crnn-deep": CrnnShape((64, 96, 128), 128, bidirectional=True),
    "crnn-bi64": CrnnShape((64, 64), 64, bidirectional=True),
    "crnn-wide": CrnnShape((96, 96), 96, bidirectional=True),
    "crnn-bi64-deep": CrnnShape((48, 64, 64), 64, bidirectional=True),
    "crnn-stacked": CrnnShape((64, 64), 64, layers=2),
}
"""The first five are FedMLAC's table 3, which gives of the deep one the first width and the last."""
FEDMLAC = ("crnn-tiny", "crnn-lite", "crnn-mid", "crnn-base", "crnn-deep")
"""Those of FedMLAC's table 3, from the smallest."""
WHEEL_CRNNS: dict[str, str] = {
    "crnn-base": "crnn-bi64",
    "crnn-wide": "crnn-wide",
    "crnn-deep": "crnn-bi64-deep",
    "crnn-stacked": "crnn-stacked",
    "crnn-lite": "crnn-lite",
}
"""What the wheel's packs call their CRNNs, and which these are."""
PLUGIN = "crnn-lite"
OF_HIDDEN = "gru.weight_hh_l0"
"""The tensor whose last axis is the GRU's hidden units."""


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
    bavd
        Whether MuPFL's activation dropout follows each convolution's ReLU: a map over time of each block.
    """

    def __init__(self, shape: CrnnShape, labels: int, mels: int = USUAL_MELS, *, bavd: bool = False) -> None:
        super().__init__()
        widths = (mels, *shape.channels)
        self.shape = shape
        self.drop = nn.ModuleList(Bavd() for _ in shape.channels if bavd)
        self.conv = nn.ModuleList(nn.Conv1d(a, b, 3, padding=1) for a, b in pairwise(widths))
        self.gru = nn.GRU(widths[-1], shape.hidden, shape.layers, bidirectional=shape.bidirectional)
        self.head = nn.Linear(shape.hidden * (2 if shape.bidirectional else 1), labels)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, labels) for log-mels (B, T, mels)."""
        h = x.transpose(1, 2)
        for place, conv in enumerate(self.conv):
            h = torch.relu(conv(h))
            h = torch.max_pool1d(self.drop[place](h) if self.drop else h, 2)
        _, last = self.gru(h.permute(2, 0, 1))
        directions = 2 if self.shape.bidirectional else 1
        return self.head(torch.cat(list(last[-directions:]), dim=1))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ResNetShape:
    """What tells one residual network over time from another."""

    channels: tuple[int, ...]
    """Of the first layer, then of each residual block."""
    taps: tuple[tuple[int, int], ...]
    """Of the two convolutions of each block."""


RESNETS: dict[str, ResNetShape] = {
    "resnet-lite": ResNetShape((32, 48, 56), ((3, 5), (3, 5))),
    "resnet-base": ResNetShape((48, 80, 112), ((3, 5), (3, 7))),
}
"""A plug-in that costs a training step as much as `crnn-lite`, and a larger one for a device's own."""
WORD_MODELS = (*ARCHITECTURES, *RESNETS)
"""Every model that is built in."""


class AudioBroadcast(nn.Module):
    """A convolution over time as one linear layer of neighbouring frames: (B, T, C) to (B, T, outside).

    Frames outside the clip are zeros. `count` frames, an odd number, are laid side by side; that is one product of
    matrices, forwards and backwards, where a strided convolution is many small ones.
    """

    def __init__(self, inside: int, outside: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.linear = nn.Linear(inside * count, outside)

    def forward(self, h: Tensor) -> Tensor:
        """Convolve."""
        if self.count > 1:
            frames, margin = h.shape[1], self.count // 2
            padded = nn.functional.pad(h, (0, 0, margin, margin))
            h = torch.cat([padded[:, place : place + frames] for place in range(self.count)], 2)
        return self.linear(h)  # type: ignore[no-any-return]


def halve(h: Tensor) -> Tensor:
    """Two frames as one of twice the width: (B, T, C) to (B, T / 2, 2 C), T rounded up."""
    if h.shape[1] % 2:
        h = nn.functional.pad(h, (0, 0, 0, 1))
    return h.reshape(-1, h.shape[1] // 2, 2 * h.shape[2])


class _Residual(nn.Module):
    """relu(second(relu(first(x))) + relu(shortcut(x))), at half as many frames."""

    def __init__(self, inside: int, outside: int, taps: tuple[int, int]) -> None:
        super().__init__()
        self.first = AudioBroadcast(2 * inside, outside, taps[0])
        self.second = AudioBroadcast(outside, outside, taps[1])
        self.shortcut = AudioBroadcast(2 * inside, outside, 1)

    def forward(self, h: Tensor) -> Tensor:
        """Halve the time axis of (B, T, C)."""
        h = halve(h)
        return torch.relu(self.second(torch.relu(self.first(h))) + torch.relu(self.shortcut(h)))


class ResNet(nn.Module):
    """A residual network of convolutions over time with the mel bands as channels: (B, T, mels) to logits (B, labels).

    After Choi et al., "Temporal Convolution for Real-time Keyword Spotting on Mobile Devices", Interspeech 2019,
    section 3 (https://arxiv.org/abs/1904.03814). Where that one skips every second frame, this one lays two side by
    side, and batch normalisation is only there while it is trained centrally (`auricle_export.pretrain.normalised`):
    on a device there is nothing to freeze.

    Parameters
    ----------
    shape
        One of `RESNETS`, or your own.
    labels
        Number of labels.
    mels
        Mel bands of the input.
    bavd
        Whether MuPFL's activation dropout follows the last ReLU of the stem and of each block: a map over time of each.
    """

    def __init__(self, shape: ResNetShape, labels: int, mels: int = USUAL_MELS, *, bavd: bool = False) -> None:
        super().__init__()
        self.shape = shape
        self.drop = nn.ModuleList(Bavd() for _ in shape.channels if bavd)
        self.stem = AudioBroadcast(2 * mels, shape.channels[0], 1)
        widths = pairwise(shape.channels)
        self.blocks = nn.ModuleList(_Residual(a, b, taps) for (a, b), taps in zip(widths, shape.taps, strict=True))
        self.head = nn.Linear(shape.channels[-1], labels)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, labels) for log-mels (B, T, mels)."""
        h = self._apply_drop(0, torch.relu(self.stem(halve(x))))
        for place, block in enumerate(self.blocks):
            h = self._apply_drop(place + 1, block(h))
        return self.head(h.mean(1))  # type: ignore[no-any-return]

    def _apply_drop(self, place: int, h: Tensor) -> Tensor:
        """(B, T, C); what drops takes the channels before time."""
        if not self.drop:
            return h
        return self.drop[place](h.transpose(1, 2)).transpose(1, 2)  # type: ignore[no-any-return]


def net_of(model: str, table: TensorTable) -> str:
    """The built-in model that a pack has under this name: the wheel's packs have two whose names are others' now.

    Parameters
    ----------
    model
        Its name in the pack.
    table
        Its tensors, which tell one from the other.
    """
    earlier = WHEEL_CRNNS.get(model, model)
    if earlier == model:
        return model
    shapes = {spec.name: spec.shape for spec in table.specs}
    return earlier if shapes.get(OF_HIDDEN, ())[-1:] == (ARCHITECTURES[earlier].hidden,) else model


HEAD, WIDE_HEAD = "embedding-head", "embedding-head-wide"
"""The model over a frozen network's vectors, and a larger one, which votes beside a pack's own models."""
HEAD_DROPPED = 0.35
"""Share of numbers that are dropped before the hidden layer in training."""
VECTOR_SCALE = 0.05
"""Numbers of a speech embedding are a few tens: this brings them near 1."""


@dataclass(frozen=True)
class HeadShape:
    """What tells one head from another."""

    channels: int
    """Of both convolutions."""
    hidden: int
    """Units of the hidden layer."""


HEADS: dict[str, HeadShape] = {HEAD: HeadShape(32, 32), WIDE_HEAD: HeadShape(64, 48)}
"""Of some 25,000 and 68,000 weights, over vectors of 1.6 s."""


class EmbeddingHead(nn.Module):
    """Two convolutions over time and one hidden layer, over a frozen network's vectors (B, T, size) to (B, labels).

    Parameters
    ----------
    labels
        Number of labels.
    frames, size
        Vectors of a window, and numbers of one.
    shape
        Widths, one of `HEADS` or your own.
    """

    def __init__(self, labels: int, frames: int, size: int, shape: HeadShape = HEADS[HEAD]) -> None:
        super().__init__()
        width = shape.channels
        self.conv = nn.ModuleList((AudioBroadcast(size, width, 3), AudioBroadcast(width, width, 3)))
        self.drop = nn.Dropout(HEAD_DROPPED)
        self.hidden = nn.Linear(width * frames, shape.hidden)
        self.head = nn.Linear(shape.hidden, labels)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, labels) for vectors (B, T, size)."""
        h = x * VECTOR_SCALE
        for conv in self.conv:
            h = torch.relu(conv(h))
        h = torch.relu(self.hidden(self.drop(h.flatten(1))))
        return self.head(h)  # type: ignore[no-any-return]


WINDOW_FRAMES = 100
"""Of a window of a second."""


def make_module(
    name: str, labels: int, mels: int = USUAL_MELS, frames: int = WINDOW_FRAMES, *, bavd: bool = False
) -> nn.Module:
    """The module of a built-in model, with weights as PyTorch draws them; with `bavd` its layers drop activations."""
    if name in HEADS:
        return EmbeddingHead(labels, frames, mels, HEADS[name])
    if name in RESNETS:
        return ResNet(RESNETS[name], labels, mels, bavd=bavd)
    return Crnn(ARCHITECTURES[name], labels, mels, bavd=bavd)
