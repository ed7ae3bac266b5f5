"""Convolution over (B, C, *spatial), one or two spatial axes, as shifts and ONE matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from auricle_export.compiler.activation import Saved, apply, sum_rows
from auricle_export.compiler.spatial import Window, batch_first, spatial_first

N = TypeVar("N", int, int | None)

Sizes = int | Sequence[int]
"""One number for all axes, or one an axis."""


class _Kept(Saved, Protocol):
    window: Window
    batch: int
    width: int


def each(value: N | Sequence[N], axes: int) -> list[N]:
    """One number an axis."""
    values = list(value) if isinstance(value, Sequence) else [value] * axes
    return values * axes if len(values) == 1 else values


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`torch.conv1d` and `conv2d`: x (B, C, *S), weight (O, C / groups, *K), bias (O,) or None to (B, O, *S')."""
    axes = weight.dim() - 2
    if x.dim() == axes + 1:
        return convolve(x.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    kernel = list(weight.shape[2:])
    dilations = each(dilation, axes)
    widths = _padding(padding, kernel, dilations, axes)
    window = Window(x.shape[2:], kernel, each(stride, axes), widths, dilations)
    xs = spatial_first(x)
    if groups == x.shape[1] == weight.shape[0] and groups > 1:
        y = apply(Depthwise, xs, weight, window)[0]
        return batch_first(y if bias is None else apply(AddBias, y, bias)[0])
    bias = torch.zeros(weight.shape[0]) if bias is None else bias
    if groups == 1:
        return batch_first(apply(Convolve, xs, weight, bias, window)[0])
    out = weight.shape[0] // groups
    parts = zip(
        torch.split(xs, x.shape[1] // groups, -1), torch.split(weight, out), torch.split(bias, out), strict=True
    )
    return batch_first(torch.cat([apply(Convolve, *part, window)[0] for part in parts], -1))


def _padding(padding: Sizes | str, kernel: list[int], dilation: list[int], axes: int) -> list[tuple[int, int]]:
    if padding == "valid":
        return [(0, 0)] * axes
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    assert not isinstance(padding, str)
    return [(width, width) for width in each(padding, axes)]


def _columns(x: Tensor, window: Window) -> Tensor:
    """(positions, taps x C): what every output sees, a row each."""
    taps = window.taps(x)
    columns = taps[0] if len(taps) == 1 else torch.cat(taps, -1)
    return columns.reshape(-1, columns.shape[-1])


class Convolve(torch.autograd.Function):
    """x (*S, B, C), weight (O, C, *K), bias (O,): (*S', B, O)."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, window: Window) -> tuple[Tensor, Tensor]:
        columns = _columns(x, window)
        y = torch.addmm(bias, columns, _kernel(weight).t())
        return y.reshape(*window.out, x.shape[-2], -1), columns

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        x, weight, _, ctx.window = inputs
        ctx.batch = x.shape[-2]
        ctx.save_for_backward(weight, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, columns = ctx.saved_tensors
        out, width = weight.shape[:2]
        dy = grads[0].reshape(-1, out)
        d_kernel = torch.mm(dy.t(), columns).reshape(out, *weight.shape[2:], width)
        d_weight = d_kernel.permute(0, -1, *range(1, weight.dim() - 1))
        d_columns = torch.mm(dy, _kernel(weight)).reshape(*ctx.window.out, ctx.batch, -1)
        return ctx.window.gather(torch.split(d_columns, width, -1)), d_weight, sum_rows(dy), None


def _kernel(weight: Tensor) -> Tensor:
    """(O, C, *K) as the matrix (O, taps x C)."""
    return weight.permute(0, *range(2, weight.dim()), 1).reshape(weight.shape[0], -1)


class Depthwise(torch.autograd.Function):
    """One filter a channel: x (*S, B, C), weight (C, 1, *K): (*S', B, C)."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, window: Window) -> tuple[Tensor]:
        rows = _rows(weight)
        y: Tensor | None = None
        for tap, row in zip(window.taps(x), rows, strict=True):
            y = tap * row if y is None else y + tap * row
        assert y is not None
        return (y,)

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        x, weight, ctx.window = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        dy, channels = grads[0], weight.shape[0]
        sums = [sum_rows((tap * dy).reshape(-1, channels)) for tap in ctx.window.taps(x)]
        d_weight = torch.stack(sums, 1).reshape(weight.shape)
        return ctx.window.gather([dy * row for row in _rows(weight)]), d_weight, None


def _rows(weight: Tensor) -> list[Tensor]:
    """A depthwise weight (C, 1, *K) as one (C,) for each tap."""
    return list(weight.reshape(weight.shape[0], -1).t().unbind(0))


class AddBias(torch.autograd.Function):
    """y (..., O) + bias (O,); its gradient is one sum over rows."""

    @staticmethod
    def forward(y: Tensor, bias: Tensor) -> tuple[Tensor]:
        return (y + bias,)

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.width = inputs[1].shape[0]

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor) -> tuple[Tensor, Tensor]:
        return grads[0], sum_rows(grads[0].reshape(-1, ctx.width))
