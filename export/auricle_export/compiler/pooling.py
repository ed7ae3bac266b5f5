"""Pooling over (B, C, *spatial), one or two spatial axes, as shifts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor

from auricle_export.compiler.activation import Saved, apply, before_relu, relu
from auricle_export.compiler.convolution import Sizes, each
from auricle_export.compiler.spatial import Window, batch_first, spatial_first


class _Kept(Saved, Protocol):
    window: Window
    dim: int


Wanted = int | None | Sequence[int | None]
"""Sizes of a result; None: as the input's."""


def max_pool(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """`max_pool1d` and `max_pool2d` over (B, C, *S); at a tie the first one in row-major order takes the gradient."""
    if return_indices:
        raise NotImplementedError("max-pooling with return_indices", "the pooled values")
    before = before_relu(x)
    if before is not None:  # the same numbers and gradients, with the ReLU on the smaller tensor
        return relu(max_pool(before, kernel_size, stride, padding, dilation, ceil_mode))
    axes = x.dim() - 2
    kernel, widths, dilations = each(kernel_size, axes), each(padding, axes), each(dilation, axes)
    strides = kernel if stride is None or stride == [] else each(stride, axes)
    xs = spatial_first(x)
    whole = kernel == strides and not any(widths) and set(dilations) == {1} and not ceil_mode
    if whole and all(k in (1, 2) for k in kernel):
        for dim in reversed(range(axes)):
            if kernel[dim] == 2:
                xs = apply(Halve, xs.narrow(dim, 0, xs.shape[dim] // 2 * 2) if xs.shape[dim] % 2 else xs, dim)[0]
        return batch_first(xs)
    around = _around(x.shape[2:], kernel, strides, widths, dilations, ceil_mode)
    return batch_first(apply(Maximum, xs, Window(x.shape[2:], kernel, strides, around, dilations))[0])


def _around(
    sizes: Sequence[int], kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil_mode: bool
) -> list[tuple[int, int]]:
    """Padding before and after; with `ceil_mode` enough for the last window, if it begins inside the input."""
    around = []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        more = 0
        if ceil_mode:
            windows = -(-(size + 2 * p - d * (k - 1) - 1) // s) + 1
            windows -= (windows - 1) * s >= size + p
            more = max(0, (windows - 1) * s + d * (k - 1) + 1 - size - 2 * p)
        around.append((p, p + more))
    return around


class Halve(torch.autograd.Function):
    """Max-pool by two along one axis of even length."""

    @staticmethod
    def forward(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        pairs = x.unflatten(dim, (x.shape[dim] // 2, 2))  # type: ignore[no-untyped-call]
        even, odd = pairs.select(dim + 1, 0), pairs.select(dim + 1, 1)
        return torch.maximum(even, odd), (even >= odd).to(x.dtype)

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.dim = inputs[1]
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor) -> tuple[Tensor, None]:
        (first,) = ctx.saved_tensors
        to_even = grads[0] * first
        return torch.stack([to_even, grads[0] - to_even], ctx.dim + 1).flatten(ctx.dim, ctx.dim + 1), None


class Maximum(torch.autograd.Function):
    """Max-pool with any window: x (*S, B, C) to (*S', B, C)."""

    @staticmethod
    def forward(x: Tensor, window: Window) -> tuple[Tensor]:
        return (_largest(window.taps(x, -3.0e38)),)

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.window = inputs[1]
        ctx.save_for_backward(inputs[0], output[0])

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor) -> tuple[Tensor, None]:
        x, y = ctx.saved_tensors
        free, parts = torch.ones_like(y), []
        for tap in ctx.window.taps(x, -3.0e38):
            hit = (tap >= y).to(y.dtype) * free
            free = free - hit
            parts.append(grads[0] * hit)
        return ctx.window.gather(parts), None


def _largest(taps: list[Tensor]) -> Tensor:
    y = taps[0]
    for tap in taps[1:]:
        y = torch.maximum(y, tap)
    return y


def mean_pool(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`avg_pool1d` and `avg_pool2d` over (B, C, *S)."""
    axes = x.dim() - 2
    kernel, widths = each(kernel_size, axes), each(padding, axes)
    strides = kernel if stride is None or stride == [] else each(stride, axes)
    around = _around(x.shape[2:], kernel, strides, widths, [1] * axes, ceil_mode)
    window = Window(x.shape[2:], kernel, strides, around, [1] * axes)
    taps = window.taps(spatial_first(x))
    total = taps[0]
    for tap in taps[1:]:
        total = total + tap
    if divisor_override is not None:
        return batch_first(total / divisor_override)
    if count_include_pad and around == [(width, width) for width in widths]:
        return batch_first(total / prod(kernel))
    counts = [
        _count_places(
            x.shape[2 + i], kernel[i], strides[i], around[i], widths[i] if count_include_pad else 0, window.out[i]
        )
        for i in range(axes)
    ]
    shares = counts[0] if axes == 1 else counts[0].unsqueeze(1) * counts[1]
    return batch_first(total) / shares


def _count_places(size: int, kernel: int, stride: int, around: tuple[int, int], counts: int, out: int) -> Tensor:
    """How many places of every window count along an axis: the input's, and `counts` of the padding on each side."""
    first, last = around[0] - counts, around[0] + size + counts
    starts = range(0, out * stride, stride)
    return torch.tensor([float(min(start + kernel, last) - max(start, first)) for start in starts])


def adaptive_mean_pool(x: Tensor, output_size: Wanted) -> Tensor:
    """`adaptive_avg_pool1d` and `2d`: means, then windows where they are equal, else a product with constant shares."""
    wanted = output_sizes(x, output_size)
    whole = tuple(dim for dim, n in enumerate(wanted, 2) if n == 1)
    x = x.mean(dim=whole, keepdim=True) if whole else x
    if list(x.shape[2:]) == wanted:
        return x
    if not any(size % n for size, n in zip(x.shape[2:], wanted, strict=True)):
        return mean_pool(x, [size // n for size, n in zip(x.shape[2:], wanted, strict=True)])
    for dim, n in enumerate(wanted, 2):
        parts = regions(x.shape[dim], n)
        shares = [[(start <= i < end) / (end - start) for start, end in parts] for i in range(x.shape[dim])]
        x = (x.transpose(dim, -1) @ torch.tensor(shares)).transpose(dim, -1)
    return x


def adaptive_max_pool(x: Tensor, output_size: Wanted, return_indices: bool = False) -> Tensor:
    """`adaptive_max_pool1d` and `2d`; where several places of a region hold its maximum they share the gradient."""
    if return_indices:
        raise NotImplementedError("max-pooling with return_indices", "the pooled values")
    for dim, n in enumerate(output_sizes(x, output_size), 2):
        parts = [x.narrow(dim, start, end - start).amax(dim, keepdim=True) for start, end in regions(x.shape[dim], n)]
        x = parts[0] if n == 1 else torch.cat(parts, dim)
    return x


def output_sizes(x: Tensor, output_size: Wanted) -> list[int]:
    """Sizes of an adaptive pooling of x (B, C, *S), one a spatial axis; where none is wanted, that of x."""
    axes = x.dim() - 2
    return [size if n is None else n for n, size in zip(each(output_size, axes), x.shape[2:], strict=True)]


def regions(size: int, parts: int) -> list[tuple[int, int]]:
    """First place and end of each of the regions that adaptive pooling makes; they may overlap."""
    return [(i * size // parts, -(-(i + 1) * size // parts)) for i in range(parts)]
