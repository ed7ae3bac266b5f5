"""A module that was found sound, with what a step graph needs to know of its parts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

BATCH = 16


@dataclass(frozen=True)
class Net:
    """A module that can be compiled, and what was found in it."""

    module: nn.Module
    head: str
    """Name of the classifier, an `nn.Linear`."""
    features: int
    """Width of the classifier's input."""
    frames: int
    mels: int
    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    """Names and shapes of the body's trained tensors, in the order in which a flat body holds them."""
    noise: tuple[tuple[int, ...], ...]
    """Shapes of the dropout masks, in the order of their use."""
    maps: tuple[tuple[str, tuple[int, ...]], ...]
    """BAVD layers and the shapes of their maps."""
    batch: int = BATCH

    @property
    def body(self) -> int:
        """Numbers in the flat body."""
        return sum(torch.Size(shape).numel() for _, shape in self.tensors)


def parameters_of(module: nn.Module, head: str) -> tuple[Tensor, Tensor]:
    """Weight (labels, features) and bias (labels,) of the classifier."""
    named = dict(module.named_parameters())
    return named[f"{head}.weight"], named[f"{head}.bias"]


def unpack(net: Net, body: Tensor) -> dict[str, Tensor]:
    """The named tensors in a flat body."""
    if not net.tensors:
        return {}
    pieces = torch.split(body, [torch.Size(shape).numel() for _, shape in net.tensors])
    return {name: piece.reshape(shape) for (name, shape), piece in zip(net.tensors, pieces, strict=True)}
