"""The CRNN once more, written so that its backward pass becomes few and large ONNX operators.

Everything is time-major (T, B, C): a convolution is a concatenation of shifts and ONE matrix product, max-pooling the
maximum of two strided halves, and the GRU's backward stacks the time steps so that each weight gradient is ONE matrix
product. `models.Crnn` is the plain form; the tests hold the two to the same numbers in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from auricle_export.models import CrnnShape


def apply(function: type[torch.autograd.Function], *inputs: Any) -> tuple[Tensor, ...]:
    """Call an autograd function; PyTorch types this call as nothing at all."""
    outputs: tuple[Tensor, ...] = function.apply(*inputs)  # type: ignore[no-untyped-call]
    return outputs


class Convolve(torch.autograd.Function):
    """ReLU(Conv1d(kernel 3, padding 1)) over x (T, B, C) with weight (O, C, 3): (T, B, O)."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        edge = torch.zeros_like(x[:1])
        columns = torch.cat([torch.cat([edge, x[:-1]]), x, torch.cat([x[1:], edge])], 2)
        kernel = weight.permute(2, 1, 0).reshape(-1, weight.shape[0])
        flat = columns.reshape(-1, kernel.shape[0])
        y = torch.relu(torch.mm(flat, kernel) + bias)
        return y.reshape(x.shape[0], x.shape[1], -1), flat

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _, weight, _ = inputs
        ctx.save_for_backward(weight, *output)
        ctx.needs_x = inputs[0].requires_grad

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, Tensor]:
        weight, y, flat = ctx.saved_tensors
        out, width = weight.shape[0], weight.shape[1]
        dy = (grads[0] * (y > 0).to(y.dtype)).reshape(-1, out)
        d_kernel = torch.mm(flat.t(), dy)
        kernel = weight.permute(2, 1, 0).reshape(-1, out)
        d_flat = torch.mm(dy, kernel.t()).reshape(y.shape[0], y.shape[1], 3 * width)
        before, here, after = torch.split(d_flat, width, 2)
        edge = torch.zeros_like(here[:1])
        dx = here + torch.cat([before[1:], edge]) + torch.cat([edge, after[:-1]])
        return dx, d_kernel.reshape(3, width, out).permute(2, 1, 0), dy.sum(0)


class HalveTime(torch.autograd.Function):
    """Max-pool by two over time, x (T, B, C) with even T: (T/2, B, C). At a tie the earlier one takes the gradient."""

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        pairs = x.reshape(x.shape[0] // 2, 2, x.shape[1], x.shape[2])
        even, odd = pairs[:, 0], pairs[:, 1]
        return torch.maximum(even, odd), (even >= odd).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor:
        (first,) = ctx.saved_tensors
        to_even = grads[0] * first
        return torch.stack([to_even, grads[0] - to_even], 1).flatten(0, 1)


class Gru(torch.autograd.Function):
    """A GRU over x (T, B, D), gates in PyTorch's order r, z, n. Returns the last state, or all of them stacked.

    `sequence` says which; `reverse` walks from the end. What the backward needs of each step is handed over step by
    step; only the backward gathers it, so each weight gradient is one matrix product.
    """

    @staticmethod
    def forward(
        x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, sequence: bool, reverse: bool
    ) -> tuple[Tensor, ...]:
        hidden, w_hh_t = w_hh.shape[1], w_hh.t()
        h, saved, states = torch.zeros_like(torch.mm(x[0], w_ih[:hidden].t())), [], []
        inputs = torch.mm(x.reshape(-1, x.shape[2]), w_ih.t()) + b_ih
        gates = list(inputs.reshape(x.shape[0], x.shape[1], -1).unbind(0))
        for gate in reversed(gates) if reverse else gates:
            own = torch.mm(h, w_hh_t) + b_hh
            gate_rz, gate_n = torch.split(gate, [2 * hidden, hidden], 1)
            own_rz, candidate = torch.split(own, [2 * hidden, hidden], 1)
            r, z = torch.split(torch.sigmoid(gate_rz + own_rz), hidden, 1)
            n = torch.tanh(gate_n + r * candidate)
            saved += [h, r, z, n, candidate]
            h = n + z * (h - n)
            states.append(h)
        result = torch.stack(states[::-1] if reverse else states) if sequence else h
        return result, *saved

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        x, w_ih, w_hh, _, _, ctx.sequence, ctx.reverse = inputs
        ctx.save_for_backward(x, w_ih, w_hh, *output[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        x, w_ih, w_hh, *saved = ctx.saved_tensors
        steps = len(saved) // 5
        arriving: list[Tensor | None] = [None] * steps
        if ctx.sequence:
            arriving = list(grads[0].unbind(0))[:: -1 if ctx.reverse else 1]
        else:
            arriving[-1] = grads[0]
        d_in, d_hid, dh = [], [], None
        for t in reversed(range(steps)):
            h, r, z, n, candidate = saved[5 * t : 5 * t + 5]
            come = arriving[t]
            dh = come if dh is None else dh if come is None else dh + come
            assert dh is not None
            dn = dh * (1 - z) * (1 - n * n)
            dz = dh * (h - n) * z * (1 - z)
            dr = dn * candidate * r * (1 - r)
            d_in.append(torch.cat([dr, dz, dn], 1))
            d_hid.append(torch.cat([dr, dz, dn * r], 1))
            dh = dh * z + torch.mm(d_hid[-1], w_hh)
        h_prev = torch.cat(saved[::5], 0)
        in_time = torch.cat(d_in if ctx.reverse else d_in[::-1], 0)
        hid_all = torch.cat(d_hid[::-1], 0)
        dx = torch.mm(in_time, w_ih).reshape(x.shape)
        flat = x.reshape(-1, x.shape[2])
        return (
            dx,
            torch.mm(in_time.t(), flat),
            torch.mm(hid_all.t(), h_prev),
            in_time.sum(0),
            hid_all.sum(0),
            None,
            None,
        )


class Classify(torch.autograd.Function):
    """The classifier h W^T + b. Written out so that no constant of the graph depends on the number of labels."""

    @staticmethod
    def forward(h: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor]:
        return (torch.mm(h, weight.t()) + bias,)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, Tensor]:
        h, weight = ctx.saved_tensors
        return torch.mm(grads[0], weight), torch.mm(grads[0].t(), h), grads[0].sum(0)


def logits(shape: CrnnShape, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Logits (B, labels) of `models.Crnn` for log-mels x (B, T, mels), from its named parameters."""
    h = x.transpose(0, 1)
    for i in range(len(shape.channels)):
        h = apply(Convolve, h, params[f"conv.{i}.weight"], params[f"conv.{i}.bias"])[0]
        h = apply(HalveTime, h[: h.shape[0] // 2 * 2])[0]
    for layer in range(shape.layers):
        last = layer == shape.layers - 1
        ways = [_direction(params, h, f"l{layer}", not last, False)]
        if shape.bidirectional:
            ways.append(_direction(params, h, f"l{layer}_reverse", not last, True))
        h = torch.cat(ways, -1) if len(ways) > 1 else ways[0]
    return apply(Classify, h, params["head.weight"], params["head.bias"])[0]


def _direction(params: Mapping[str, Tensor], x: Tensor, suffix: str, sequence: bool, reverse: bool) -> Tensor:
    weights = [params[f"gru.{kind}_{suffix}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    return apply(Gru, x, *weights, sequence, reverse)[0]
