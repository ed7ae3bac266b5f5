"""Layers that are a linear classifier: an `nn.Linear`, a 1x1 convolution, or one whose kernel is as large as its input.

A convolution with a kernel of one place, after which the mean over all places is taken, gives the same logits as the
linear layer on the mean of its input: W mean(x) + b = mean(W x + b). On maps of one place the mean is the input itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d)
TOLERANCE = 1e-5
"""By how much the module's output may differ from the mean of its last layer's, of numbers around 1."""


def is_linear(x: Tensor, weight: Tensor, stride: int | Sequence[int], padding: object, groups: int) -> bool:
    """Whether a convolution of x (B, C, *S) may be a classifier.

    Parameters
    ----------
    weight
        (O, C / groups, *K). The kernel is one place, which moves by one; or it covers the input, and is used once.
    """
    kernel, sizes = weight.shape[2:], x.shape[2:]
    if groups != 1 or x.dim() != weight.dim() or not (padding in (0, "valid", "same") or not any(_numbers(padding))):
        return False
    if kernel.numel() == 1:
        return sizes.numel() == 1 or set(_numbers(stride)) == {1}
    return bool(kernel == sizes) and padding != "same"


def _numbers(value: object) -> list[int]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [int(str(value))]


def features_of(x: Tensor, weight: Tensor) -> Tensor:
    """What the equal `nn.Linear` is given (B, features), of a classifier's input and its weight."""
    if weight.dim() == 2:
        return x
    if weight.shape[2:].numel() > 1 or x.shape[2:].numel() == 1:
        return x.flatten(1)
    return x.flatten(2).mean(2)


def run_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What a layer gives, in a new tensor: (..., O) of a linear layer, (B, O, *S) of a convolution."""
    if weight.dim() == 2:
        y = x @ weight.t()
        return y if bias is None else y + bias
    run = torch.conv1d if weight.dim() == 3 else torch.conv2d
    return run(x, weight, bias)


def random_like(result: Tensor, generator: torch.Generator) -> Tensor:
    """Random numbers of both signs in place of a convolution's result (B, O, *S)."""
    return torch.randn(result.shape, generator=generator)


def is_mean(output: Tensor, result: Tensor) -> bool:
    """Whether logits (B, O) are the mean over the places of a layer's result (B, O, *S), and nothing else."""
    due = result.flatten(2).mean(2) if result.dim() > 2 else result
    return output.shape == due.shape and bool(torch.allclose(output, due, rtol=0.0, atol=TOLERANCE))
