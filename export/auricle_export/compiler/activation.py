"""ReLU, and how an autograd function is called."""

from __future__ import annotations

from math import isqrt
from typing import Any, Protocol

import torch
from torch import Tensor


class Saved(Protocol):
    """What an autograd function keeps for its way back; one that keeps more than tensors adds attributes."""

    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors."""

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that no gradient comes back for these results."""

    def set_materialize_grads(self, value: bool) -> None:
        """Whether a gradient that does not come is zeros, or None."""


def apply(function: type[torch.autograd.Function], *inputs: object) -> tuple[Tensor, ...]:
    """Call an autograd function; PyTorch types this call as nothing at all."""
    outputs: tuple[Tensor, ...] = function.apply(*inputs)  # type: ignore[no-untyped-call]
    return outputs


LONG_ROWS = 4096
"""Rows above which a sum is taken in two stages."""


def sum_rows(x: Tensor) -> Tensor:
    """The sum of the rows of x (N, C); onnxruntime adds long columns one by one, which loses digits that this keeps."""
    rows = x.shape[0]
    if rows < LONG_ROWS:
        return x.sum(0)
    parts = next(size for size in range(isqrt(rows), 0, -1) if rows % size == 0)
    return x.reshape(parts, rows // parts, -1).sum(0).sum(0)


class Relu(torch.autograd.Function):
    """max(x, 0), with the gradient where the result is positive."""

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor]:
        return (torch.relu(x),)

    @staticmethod
    def setup_context(ctx: Saved, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(output[0])

    @staticmethod
    def backward(ctx: Saved, *grads: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grads[0] * (y > 0).to(y.dtype)


def relu(x: Tensor, inplace: bool = False) -> Tensor:
    """`torch.relu`, never in place."""
    y = apply(Relu, x)[0]
    y._auricle_before_relu = x  # type: ignore[attr-defined]
    return y


def before_relu(y: Tensor) -> Tensor | None:
    """What a tensor was before `relu` made it; None for any other tensor."""
    return getattr(y, "_auricle_before_relu", None)
