"""Windows over spatial axes, with slices, pads and reshapes only: what convolution and pooling are made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def place(part: Tensor, dim: int, size: int, start: int, step: int) -> Tensor:
    """The adjoint of `x[start::step]` along an axis: a tensor of `size` with `part` in it and zeros elsewhere."""
    length = part.shape[dim]
    if step > 1:
        spread = list(part.shape)
        spread[dim] = length * step
        part = pad(part.unsqueeze(dim + 1), {dim + 1: (0, step - 1)}).reshape(spread)
        if length * step > size - start:
            part = part.narrow(dim, 0, size - start)
    return pad(part, {dim: (start, size - start - part.shape[dim])})


def pad(x: Tensor, widths: dict[int, tuple[int, int]], value: float = 0.0) -> Tensor:
    """Pad the axes named in `widths` by so many before and after."""
    if not any(sum(width) for width in widths.values()):
        return x
    flat = [width for dim in reversed(range(x.dim())) for width in widths.get(dim, (0, 0))]
    return aten.constant_pad_nd(x, flat, value)  # type: ignore[no-any-return]


def pad_around(x: Tensor, pad_widths: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`torch.nn.functional.pad`; what is repeated at the edges is joined from slices."""
    widths = {x.dim() - 1 - i: (pad_widths[2 * i], pad_widths[2 * i + 1]) for i in range(len(pad_widths) // 2)}
    for dim, (before, after) in widths.items():
        if before < 0 or after < 0:
            x = x.narrow(dim, max(0, -before), x.shape[dim] + min(0, before) + min(0, after))
    kept = {dim: (max(0, before), max(0, after)) for dim, (before, after) in widths.items()}
    if mode == "constant":
        return pad(x, kept, value or 0.0)
    for dim, (before, after) in kept.items():
        size = x.shape[dim]
        parts = [_edge(x, dim, mode, 0, before), x, _edge(x, dim, mode, size, after)]
        x = torch.cat([part for part in parts if part.shape[dim]], dim)
    return x


def _edge(x: Tensor, dim: int, mode: str, place: int, width: int) -> Tensor:
    """What stands before (place 0) or after (place: the size) an axis that is padded."""
    size = x.shape[dim]
    if mode == "circular":
        return x.narrow(dim, 0 if place else size - width, width)
    if mode == "replicate":
        return torch.cat([x.narrow(dim, max(0, place - 1), 1)] * width, dim) if width else x.narrow(dim, 0, 0)
    return x.narrow(dim, size - 1 - width if place else 1, width).flip(dim)


def slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    """As padding; the usual decomposition is a ScatterND, twice as slow."""
    dim, start = dim % len(sizes), max(start + sizes[dim], 0) if start < 0 else start
    return place(grad, dim, sizes[dim], start, step)


def select_backward(grad: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor:
    """As padding, like `slice_backward`."""
    dim, index = dim % len(sizes), index % sizes[dim]
    return place(grad.unsqueeze(dim), dim, sizes[dim], index, 1)


def take(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """`torch.index_select`: a product with one-hot rows, whose gradient is a product too, not a scatter."""
    hot = (torch.arange(x.shape[dim]).reshape(-1, 1) == index.reshape(1, -1)).to(x.dtype)
    return (x.transpose(dim, -1) @ hot).transpose(dim, -1)


Index = int | slice | Tensor | list[int] | tuple[Any, ...] | None
"""What stands in brackets behind a tensor."""


def item(x: Tensor, index: Index) -> Tensor:
    """`x[index]`; one list of places among slices is taken like `index_select`."""
    parts = list(index) if isinstance(index, tuple) else [index]
    spots = [i for i, part in enumerate(parts) if isinstance(part, list | Tensor)]
    if not spots or not x.is_floating_point():
        return x[index]
    chosen = torch.as_tensor(parts[spots[0]])
    plain = all(part is None or part is Ellipsis or isinstance(part, slice | list | Tensor) for part in parts)
    if len(spots) > 1 or chosen.dim() != 1 or chosen.dtype != torch.int64 or not plain:
        what = "an index of several lists, of truth values or with more axes"
        raise NotImplementedError(what, "index_select or a mask")
    whole = [i for i, part in enumerate(parts) if part is Ellipsis]
    if whole and whole[0] < spots[0]:
        dim = x.dim() + sum(part is None for part in parts) - len(parts[spots[0] :])
    else:
        dim = spots[0]
    parts[spots[0]] = slice(None)
    taken = x[tuple(parts)]
    return take(taken, dim, torch.where(chosen < 0, chosen + taken.shape[dim], chosen))


def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Tensor:
    """`torch.roll` along named axes, joined from slices."""
    shifts, dims = ([value] if isinstance(value, int) else list(value) for value in (shifts, dims))
    if not dims:
        return roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        first = -shift % x.shape[dim]
        if first:
            x = torch.cat([x.narrow(dim, first, x.shape[dim] - first), x.narrow(dim, 0, first)], dim)
    return x


def spatial_first(x: Tensor) -> Tensor:
    """(B, C, *spatial) to (*spatial, B, C): shifts along time then are whole blocks of memory."""
    return x.permute(*range(2, x.dim()), 0, 1)


def batch_first(x: Tensor) -> Tensor:
    """(*spatial, B, C) back to (B, C, *spatial)."""
    return x.permute(x.dim() - 2, x.dim() - 1, *range(x.dim() - 2))


class Window:
    """A sliding window over the leading axes of a tensor (*spatial, ...).

    Parameters
    ----------
    sizes
        Spatial sizes of the input.
    kernel, stride, padding, dilation
        One number an axis. `padding` may be (before, after) pairs.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[tuple[int, int]],
        dilation: Sequence[int],
    ) -> None:
        self.stride, self.padding, self.dilation = list(stride), list(padding), list(dilation)
        self.sizes = list(sizes)
        self.padded = [size + sum(width) for size, width in zip(sizes, padding, strict=True)]
        spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
        self.out = [(p - span) // s + 1 for p, span, s in zip(self.padded, spans, stride, strict=True)]
        self.offsets = list(product(*(range(k) for k in kernel)))
        if min(self.out) < 1:
            raise ValueError("the window is larger than its input")

    def taps(self, x: Tensor, fill: float = 0.0) -> list[Tensor]:
        """For each kernel offset what it sees: tensors (*out, ...), in row-major order of the offsets."""
        x = pad(x, dict(enumerate(self.padding)), fill)
        found = []
        for offset in self.offsets:
            tap = x
            for dim, (o, d, s, n) in enumerate(zip(offset, self.dilation, self.stride, self.out, strict=True)):
                if (o * d, s, n) != (0, 1, self.padded[dim]):
                    tap = aten.slice.Tensor(tap, dim, o * d, o * d + (n - 1) * s + 1, s)
            found.append(tap)
        return found

    def gather(self, taps: Sequence[Tensor]) -> Tensor:
        """The adjoint of `taps`: each tensor put back where its offset saw it, and summed."""
        total: Any = None
        for offset, tap in zip(self.offsets, taps, strict=True):
            part: Tensor | None = tap
            for dim, (o, d, s) in enumerate(zip(offset, self.dilation, self.stride, strict=True)):
                part = None if part is None else self._back(part, dim, o * d, s)
            if part is not None:
                total = part if total is None else total + part
        if total is None:
            return taps[0].new_zeros([*self.sizes, *taps[0].shape[len(self.sizes) :]])
        return total  # type: ignore[no-any-return]

    def _back(self, part: Tensor, dim: int, start: int, step: int) -> Tensor | None:
        """Put a tap's slice back along one axis, in the coordinates of the unpadded input; None: it saw padding only.

        A kernel that is longer than its input has such taps, and a slice of no numbers runs in no C library.
        """
        if step > 1:
            part = place(part, dim, (part.shape[dim] - 1) * step + 1, 0, step)
        first = start - self.padding[dim][0]
        last = first + part.shape[dim]
        size = self.sizes[dim]
        lower, upper = max(0, -first), part.shape[dim] - max(0, last - size)
        if upper <= lower:
            return None
        if (lower, upper) != (0, part.shape[dim]):
            part = part.narrow(dim, lower, upper - lower)
        return pad(part, {dim: (max(0, first), size - max(0, first) - part.shape[dim])})
