"""One direction of an LSTM: ONNX's own operator forward, its gates computed again at once for the way back."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from auricle_export.compiler.activation import Saved
from auricle_export.compiler.sequence import each_step, states_before


class _Kept(Saved, Protocol):
    reverse: bool


class Lstm(torch.autograd.Function):
    """One direction of an LSTM: all states (T, B, H), the last state and the last cell (B, H)."""

    @staticmethod
    def forward(
        x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, start: Tensor, cell: Tensor, reverse: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        states = torch.ops.auricle.lstm_sequence(x, w_ih, w_hh, b_ih, b_hh, start, cell, reverse)
        last = states.select(0, 0 if reverse else x.shape[0] - 1).clone()
        cells = _cells(_gates(x, states, (w_ih, w_hh, b_ih, b_hh), start, reverse), cell, reverse)
        return states, last, cells[0 if reverse else -1].clone()

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(*inputs[:7], output[0])
        ctx.reverse = inputs[7]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, w_ih, w_hh, b_ih, b_hh, start, cell, states = ctx.saved_tensors
        gates = _gates(x, states, (w_ih, w_hh, b_ih, b_hh), start, ctx.reverse)
        cells = torch.stack(_cells(gates, cell, ctx.reverse))
        i, f, g, o = gates
        squashed = torch.tanh(cells)
        to_cell = o * (1 - squashed * squashed)
        from_cell = torch.cat(
            [g * i * (1 - i), states_before(cells, cell, ctx.reverse) * f * (1 - f), i * (1 - g * g)], -1
        )
        from_state = squashed * o * (1 - o)
        order = range(states.shape[0])
        arriving = each_step(grads[0], len(order))
        products: dict[int, Tensor] = {}
        dh, dc = grads[1], grads[2]
        for t in order if ctx.reverse else reversed(order):
            come = arriving[t]
            dh = come if dh is None else dh if come is None else dh + come
            if dh is None:
                dh = torch.zeros_like(start[0])
            through = dh * to_cell[t]
            dc = through if dc is None else dc + through
            products[t] = torch.cat([torch.cat([dc, dc, dc], 1) * from_cell[t], dh * from_state[t]], 1)
            dh, dc = torch.mm(products[t], w_hh), dc * f[t]
        d_gates = torch.cat([products[t] for t in order])
        rows, before = x.reshape(-1, x.shape[2]), states_before(states, start, ctx.reverse).reshape(-1, states.shape[2])
        d_bias = d_gates.sum(0)
        assert dh is not None and dc is not None
        return (
            torch.mm(d_gates, w_ih).reshape(x.shape),
            torch.mm(d_gates.t(), rows),
            torch.mm(d_gates.t(), before),
            d_bias,
            d_bias,
            dh.unsqueeze(0),
            dc.unsqueeze(0),
            None,
        )


def _gates(
    x: Tensor, states: Tensor, weights: tuple[Tensor, Tensor, Tensor, Tensor], start: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gates i, f, g, o of all steps, (T, B, H) each."""
    w_ih, w_hh, b_ih, b_hh = weights
    time, batch, hidden = states.shape
    before = states_before(states, start, reverse).reshape(-1, hidden)
    total = torch.mm(x.reshape(-1, x.shape[2]), w_ih.t()) + torch.mm(before, w_hh.t()) + (b_ih + b_hh)
    i, f, g, o = torch.split(total.reshape(time, batch, -1), hidden, 2)
    return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)


def _cells(gates: tuple[Tensor, Tensor, Tensor, Tensor], cell: Tensor, reverse: bool) -> list[Tensor]:
    """The cell after every step, in the order of time."""
    i, f, g, _ = gates
    new, keep = (i * g).unbind(0), f.unbind(0)
    order, found, c = range(len(new)), {}, cell[0]
    for t in reversed(order) if reverse else order:
        c = keep[t] * c + new[t]
        found[t] = c
    return [found[t] for t in order]
