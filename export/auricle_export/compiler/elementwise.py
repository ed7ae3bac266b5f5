"""Activations written out in operators whose derivatives are in ONNX's standard set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return x * torch.sigmoid(x)


def mish(x: Tensor) -> Tensor:
    """x tanh(log(1 + e^x))."""
    return x * torch.tanh(F.softplus(x))


def hardsigmoid(x: Tensor) -> Tensor:
    """The ramp from 0 at -3 to 1 at 3."""
    return torch.clamp(x + 3, 0.0, 6.0) / 6


def hardswish(x: Tensor) -> Tensor:
    """x times `hardsigmoid`."""
    return x * hardsigmoid(x)


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x between two bounds."""
    return torch.clamp(x, min_val, max_val)


def relu6(x: Tensor) -> Tensor:
    """x between 0 and 6."""
    return torch.clamp(x, 0.0, 6.0)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x, or x times a slope below 0."""
    return torch.where(x > 0, x, x * negative_slope)


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x, or x times a trained slope, one or one a channel, below 0."""
    shape = [1, -1] + [1] * (x.dim() - 2) if x.dim() > 1 and weight.numel() > 1 else [1] * x.dim()
    return torch.where(x > 0, x, x * weight.reshape(shape))


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x, or alpha (e^x - 1) below 0."""
    return torch.where(x > 0, x, alpha * (torch.exp(torch.clamp(x, max=0.0)) - 1))


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x, or alpha (e^(x / alpha) - 1) below 0."""
    return torch.where(x > 0, x, alpha * (torch.exp(torch.clamp(x, max=0.0) / alpha) - 1))


def selu(x: Tensor) -> Tensor:
    """`elu` with the constants that keep mean 0 and variance 1."""
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x, or 0 within a distance of it."""
    return torch.where(x.abs() > lambd, x, torch.zeros_like(x))


def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by a distance."""
    return x - torch.clamp(x, -lambd, lambd)


def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """x, or a value at and below a threshold."""
    return torch.where(x > threshold, x, torch.full_like(x, value))


def logsigmoid(x: Tensor) -> Tensor:
    """log sigmoid(x)."""
    return -F.softplus(-x)


def rules() -> dict[Any, Callable[..., Tensor]]:
    """What takes the place of PyTorch's own."""
    own = (
        silu,
        mish,
        hardsigmoid,
        hardswish,
        hardtanh,
        relu6,
        leaky_relu,
        prelu,
        elu,
        celu,
        selu,
        hardshrink,
        softshrink,
        threshold,
        logsigmoid,
    )
    found: dict[Any, Callable[..., Tensor]] = {}
    for function in own:
        for place in (F, torch, Tensor):
            theirs = getattr(place, function.__name__, None)
            if theirs is not None:
                found[theirs] = function
    return found
