"""Layers that the papers add to a model: MuPFL's biased activation dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn


class Bavd(nn.Module):
    """Biased activation value dropout (MuPFL, eq. 6), to be placed after a ReLU.

    While training it zeroes the positions whose *map* lies below the map's mean; the map grows by psi * mean(h) once
    the loss of the step is known, psi = previous - current loss (ALGORITHMS A17-A22). In eval mode it does nothing.
    In a step graph the map is state that goes in and out; in plain PyTorch call `update(loss)` after every step.

    Parameters
    ----------
    per_channel
        Keep a map for each channel; otherwise the mean over channels.
    sign
        `text`: a falling loss raises the map; `formula`: as eq. 6 prints it, the other way round.
    rescale
        Divide by the share of positions kept.
    """

    def __init__(
        self, *, per_channel: bool = False, sign: Literal["text", "formula"] = "text", rescale: bool = False
    ) -> None:
        super().__init__()
        self.per_channel, self.sign, self.rescale = per_channel, sign, rescale
        self.traced: Callable[[Tensor], Tensor] | None = None
        """What takes this layer's place while it is compiled."""
        self.reset()

    def reset(self) -> None:
        """Forget the map, as at the start of a round (A22)."""
        self.map: Tensor | None = None
        self._loss = 0.0
        self._mean: Tensor | None = None

    def forward(self, h: Tensor) -> Tensor:
        """Mask activations h (B, C, *spatial), or (B, C)."""
        if not self.training:
            return h
        if self.traced is not None:
            return self.traced(h)
        self._mean = self.mean(h)
        return h if self.map is None else self.masked(h, self.map, torch.ones(1))

    def mean(self, h: Tensor) -> Tensor:
        """What the map is made of: h averaged over the batch and, unless `per_channel`, the channels."""
        return h.detach().mean(0 if self.per_channel or h.dim() == 2 else (0, 1))

    def masked(self, h: Tensor, heat: Tensor, seen: Tensor) -> Tensor:
        """h where the map, scaled to 0..1, is at least its mean; all of h while `seen` is 0 or the map is flat."""
        exact = heat.double().flatten()
        low, high = exact.amin(0), exact.amax(0)
        spread = (high > low).double()
        scaled = (exact - low) / (high - low + (1 - spread))
        usable = spread * (exact.abs().sum() < 1e300).double() * (seen.double().sum() > 0).double()
        above = (scaled >= scaled.mean()).double()
        kept = (1 - usable * (1 - above)).to(h.dtype).reshape(heat.shape)
        return h * (kept / kept.mean() if self.rescale else kept)

    @property
    def direction(self) -> float:
        """+1 when a falling loss raises the map."""
        return 1.0 if self.sign == "text" else -1.0

    def update(self, loss: float) -> None:
        """Take the loss of the step whose activations were seen last into the map."""
        if self._mean is None:
            return
        gain = self.direction * (self._loss - loss)
        self.map = self._mean if self.map is None else self.map + gain * self._mean
        self._loss = loss
