"""One direction of a GRU whose backward pass walks time with few operators a step.

What is left for each step going back is one product with the recurrent weights and three elementwise operators; each
weight gradient is ONE matrix product over all steps. A short sequence is written out step by step going forward, which
keeps its gates; a long one is ONNX's own operator, and its gates are computed again for all steps at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from auricle_export.compiler.activation import Saved
from auricle_export.compiler.sequence import each_step, states_before

UNROLLED_STEPS = 50
"""Steps up to which a GRU's forward pass is written out, so that its gates need not be computed again going back."""


class _Kept(Saved, Protocol):
    reverse: bool


class Gru(torch.autograd.Function):
    """One direction of a GRU over x (T, B, I) from start (1, B, H): all states (T, B, H) and the last (B, H)."""

    @staticmethod
    def forward(
        x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, start: Tensor, reverse: bool
    ) -> tuple[Tensor, ...]:
        if x.shape[0] <= UNROLLED_STEPS:
            return _unroll(x, w_ih, w_hh, b_ih, b_hh, start, reverse)
        states = torch.ops.auricle.gru_sequence(x, w_ih, w_hh, b_ih, b_hh, start, reverse)
        return states, states.select(0, 0 if reverse else x.shape[0] - 1).clone()

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(*inputs[:6], output[0], *output[2:])
        ctx.reverse = inputs[6]
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, w_ih, w_hh, b_ih, b_hh, start, states, *gates = ctx.saved_tensors
        hidden, batch = states.shape[2], states.shape[1]
        before = states_before(states, start, ctx.reverse).reshape(-1, hidden)
        rows = x.reshape(-1, x.shape[2])
        r, z, n, candidate = gates or _gru_gates(rows, before, w_ih, w_hh, b_ih, b_hh)
        free = 1 - z
        to_n = free * (1 - n * n)
        through_n = to_n * r
        moved = (states.reshape(-1, hidden) - n) * free
        factors = torch.cat([through_n * candidate * (1 - r), moved, through_n], 1)
        d_states, d_hidden, d_start = _walk(
            ctx.reverse, grads, torch.split(factors, batch), torch.split(z, batch), w_hh
        )
        d_input = torch.cat([d_hidden.narrow(1, 0, 2 * hidden), d_states * to_n], 1)
        return (
            torch.mm(d_input, w_ih).reshape(x.shape),
            torch.mm(d_input.t(), rows),
            torch.mm(d_hidden.t(), before),
            d_input.sum(0),
            d_hidden.sum(0),
            d_start.unsqueeze(0),
            None,
        )


def _unroll(
    x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, start: Tensor, reverse: bool
) -> tuple[Tensor, ...]:
    """The forward pass step by step: states, the last one, and for all steps the gates r, z, n and the candidate."""
    hidden, batch = w_hh.shape[1], x.shape[1]
    own_r, own_z, own_n = torch.split(w_hh, hidden)
    c_r, c_z, c_n = torch.split(b_hh, hidden)
    rows = x.reshape(-1, x.shape[2])
    given = [
        torch.split(torch.addmm(bias, rows, weight.t()), batch)
        for weight, bias in zip(torch.split(w_ih, hidden), _input_biases(b_ih, c_r, c_z), strict=True)
    ]
    h, found = start.select(0, 0), {}
    for t in reversed(range(x.shape[0])) if reverse else range(x.shape[0]):
        r = torch.sigmoid(torch.addmm(given[0][t], h, own_r.t()))
        z = torch.sigmoid(torch.addmm(given[1][t], h, own_z.t()))
        candidate = torch.addmm(c_n, h, own_n.t())
        n = torch.tanh(given[2][t] + r * candidate)
        h = n + z * (h - n)
        found[t] = (h, r, z, n, candidate)
    states, *gates = (torch.cat([found[t][i] for t in range(x.shape[0])]) for i in range(5))
    return states.reshape(-1, batch, hidden), h.clone(), *gates


def _input_biases(b_ih: Tensor, c_r: Tensor, c_z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Biases of r, z, n in the input's product; those of the recurrent product's r and z are added at once."""
    b_r, b_z, b_n = torch.split(b_ih, c_r.shape[0])
    return b_r + c_r, b_z + c_z, b_n


def _gru_gates(
    rows: Tensor, before: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gates r, z, n of all steps and the candidate's recurrent part, (T B, H) each."""
    sizes = [2 * w_hh.shape[1], w_hh.shape[1]]
    (in_rz, in_n), (own_rz, own_n) = (torch.split(weight, sizes) for weight in (w_ih, w_hh))
    (b_rz, b_n), (c_rz, c_n) = (torch.split(bias, sizes) for bias in (b_ih, b_hh))
    both = torch.addmm(torch.addmm(b_rz + c_rz, rows, in_rz.t()), before, own_rz.t())
    r, z = torch.split(torch.sigmoid(both), w_hh.shape[1], 1)
    candidate = torch.addmm(c_n, before, own_n.t())
    return r, z, torch.tanh(torch.addmm(b_n, rows, in_n.t()) + r * candidate), candidate


def _walk(
    reverse: bool, grads: Sequence[Tensor | None], factor: Sequence[Tensor], keep: Sequence[Tensor], w_hh: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Carry the gradient of a GRU's states back through time.

    With dh_t the gradient of the state after step t, that of the recurrent product is [dh dh dh] * factors_t, and
    dh_(t-1) = that @ W_hh + dh_t * kept_t + what arrives from outside. Returns dh (T B, H), the products' gradients
    (T B, 3 H), both in the order of time, and the gradient of the start (B, H).
    """
    order, arriving = range(len(factor)), each_step(grads[0], len(factor))
    states: dict[int, Tensor] = {}
    products: dict[int, Tensor] = {}
    dh = grads[1]
    for t in order if reverse else reversed(order):
        come = arriving[t]
        dh = come if dh is None else dh if come is None else dh + come
        if dh is None:
            dh = torch.zeros_like(keep[t])
        states[t] = dh
        products[t] = torch.cat([dh, dh, dh], 1) * factor[t]
        dh = torch.addmm(dh * keep[t], products[t], w_hh)
    assert dh is not None
    return torch.cat([states[t] for t in order]), torch.cat([products[t] for t in order]), dh
