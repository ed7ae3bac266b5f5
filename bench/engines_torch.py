"""The plug-in as a PyTorch module, and a client's local epoch on it, for the engines that train with PyTorch.

Needs PyTorch, NumPy and this project's module of the architecture alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from auricle_export.packs.models import ARCHITECTURES, WHEEL_CRNNS, Crnn
from bench.engines_worker import Facts

BATCH = 16


class Twin(Crnn):
    """The plug-in, with the loss and the metrics that pfl asks a module for."""

    def loss(self, x: Tensor, y: Tensor, is_eval: bool = False) -> Tensor:
        """Mean cross-entropy of a batch: log-mels (B, T, mels), labels (B,)."""
        return nn.functional.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        """The same as pfl sums it over clients."""
        from pfl.metrics import Weighted

        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


def twin(spec: Facts) -> Twin:
    """The module of `model`, an architecture, for so many `labels`; on one thread."""
    torch.set_num_threads(1)
    return Twin(ARCHITECTURES[WHEEL_CRNNS[spec["model"]]], spec["labels"])


def put(module: nn.Module, flat: NDArray[np.float32], spec: Facts) -> None:
    """Give a module weights (P,) in the order of the pack's table, `tensors`."""
    named, start = dict(module.named_parameters()), 0
    with torch.no_grad():
        for name, shape in spec["tensors"]:
            size = int(np.prod(shape))
            named[name].copy_(torch.from_numpy(flat[start : start + size].reshape(shape)))
            start += size


def taken(module: nn.Module, spec: Facts) -> NDArray[np.float32]:
    """The weights (P,) of a module in the order of the pack's table."""
    named = dict(module.named_parameters())
    return np.concatenate([named[name].detach().numpy().ravel() for name, _ in spec["tensors"]])


def train(module: Twin, x: Tensor, y: Tensor, rate: float, clip: float) -> float:
    """One local epoch of plain SGD over clips in batches of 16, in their order, clipped; the last loss.

    What pfl's PyTorch trainer does with a client: a new optimizer, and per batch loss, gradient, `clip_grad_norm_`,
    step and `zero_grad`.

    Parameters
    ----------
    x, y
        Log-mels (N, T, mels) and labels (N,).
    rate, clip
        Learning rate, and the largest norm of a gradient.
    """
    optimizer, last = torch.optim.SGD(module.parameters(), lr=rate), 0.0
    optimizer.zero_grad()
    for batch in zip(x.split(BATCH), y.split(BATCH), strict=True):
        loss = module.loss(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        last = loss.item()
    return last
