"""GRU and LSTM layers: ONNX's own operator forward, and a backward that walks time with few operators a step.

Forward is the operator `GRU` or `LSTM`, one node for the whole sequence. Backward computes the gates of all steps again
in large products, so that what is left for each step is one product with the recurrent weights and three elementwise
operators; each weight gradient is ONE matrix product over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnxscript import FLOAT, opset18
from torch import Tensor

from auricle_export.compiler.activation import apply

OPSET: Any = opset18


@torch.library.custom_op("auricle::gru_sequence", mutates_args=())
def gru_sequence(
    x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, start: Tensor, reverse: bool
) -> Tensor:
    """States (T, B, H) of one GRU direction over x (T, B, I), gates in PyTorch's order; `start` is (1, B, H)."""
    weights = [w_ih, w_hh, b_ih, b_hh]
    y = torch.gru(x.flip(0) if reverse else x, start, weights, True, 1, 0.0, False, False, False)[0]
    return y.flip(0) if reverse else y.clone()


@gru_sequence.register_fake
def _(x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, start: Tensor, reverse: bool) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], w_hh.shape[1])


@torch.library.custom_op("auricle::lstm_sequence", mutates_args=())
def lstm_sequence(
    x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, start: Tensor, cell: Tensor, reverse: bool
) -> Tensor:
    """States (T, B, H) of one LSTM direction over x (T, B, I), gates i, f, g, o; `start`, `cell` are (1, B, H)."""
    weights = [w_ih, w_hh, b_ih, b_hh]
    y = torch.lstm(x.flip(0) if reverse else x, (start, cell), weights, True, 1, 0.0, False, False, False)[0]
    return y.flip(0) if reverse else y.clone()


@lstm_sequence.register_fake
def _(
    x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, start: Tensor, cell: Tensor, reverse: bool
) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], w_hh.shape[1])


def _stacked(weight: Any, order: Sequence[int]) -> Any:
    """A weight or bias with its gates along the first axis in ONNX's order, under a leading axis of directions."""
    gates = OPSET.Split(weight, axis=0, num_outputs=len(order))
    return OPSET.Unsqueeze(OPSET.Concat(*[gates[i] for i in order], axis=0), [0])


def _parameters(w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, order: Sequence[int]) -> list[Any]:
    bias = OPSET.Concat(_stacked(b_ih, order), _stacked(b_hh, order), axis=1)
    return [_stacked(w_ih, order), _stacked(w_hh, order), bias]


def _hidden(weight: Any) -> int:
    return int(weight.shape[1])


def _gru_to_onnx(
    x: FLOAT, w_ih: FLOAT, w_hh: FLOAT, b_ih: FLOAT, b_hh: FLOAT, start: FLOAT, reverse: bool
) -> FLOAT:  # fmt: skip
    """PyTorch's gates are r, z, n; ONNX's z, r, h."""
    y, _ = OPSET.GRU(
        x, *_parameters(w_ih, w_hh, b_ih, b_hh, (1, 0, 2)), None, start, hidden_size=_hidden(w_hh),
        linear_before_reset=1, direction="reverse" if reverse else "forward",
    )  # fmt: skip
    return OPSET.Squeeze(y, [1])  # type: ignore[no-any-return]


def _lstm_to_onnx(
    x: FLOAT, w_ih: FLOAT, w_hh: FLOAT, b_ih: FLOAT, b_hh: FLOAT, start: FLOAT, cell: FLOAT, reverse: bool
) -> FLOAT:  # fmt: skip
    """PyTorch's gates are i, f, g, o; ONNX's i, o, f, c."""
    y, _, _ = OPSET.LSTM(
        x, *_parameters(w_ih, w_hh, b_ih, b_hh, (0, 3, 1, 2)), None, start, cell, hidden_size=_hidden(w_hh),
        direction="reverse" if reverse else "forward",
    )  # fmt: skip
    return OPSET.Squeeze(y, [1])  # type: ignore[no-any-return]


def translations() -> dict[Any, Callable[..., Any]]:
    """For `torch.onnx.export(custom_translation_table=...)`."""
    ops = torch.ops.auricle
    return {ops.gru_sequence.default: _gru_to_onnx, ops.lstm_sequence.default: _lstm_to_onnx}


UNROLLED = 50
"""Steps up to which a GRU's forward pass is written out, so that its gates need not be computed again going back."""


class Gru(torch.autograd.Function):
    """One direction of a GRU over x (T, B, I) from start (1, B, H): all states (T, B, H) and the last (B, H)."""

    @staticmethod
    def forward(
        x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, start: Tensor, reverse: bool
    ) -> tuple[Tensor, ...]:
        if x.shape[0] <= UNROLLED:
            return _unrolled(x, w_ih, w_hh, b_ih, b_hh, start, reverse)
        states = torch.ops.auricle.gru_sequence(x, w_ih, w_hh, b_ih, b_hh, start, reverse)
        return states, states.select(0, 0 if reverse else x.shape[0] - 1).clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(*inputs[:6], output[0], *output[2:])
        ctx.reverse = inputs[6]
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        x, w_ih, w_hh, b_ih, b_hh, start, states, *gates = ctx.saved_tensors
        hidden, batch = states.shape[2], states.shape[1]
        before = _before(states, start, ctx.reverse).reshape(-1, hidden)
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
            torch.mm(d_input, w_ih).reshape(x.shape), torch.mm(d_input.t(), rows), torch.mm(d_hidden.t(), before),
            d_input.sum(0), d_hidden.sum(0), d_start.unsqueeze(0), None,
        )  # fmt: skip


def _unrolled(
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


def _before(states: Tensor, start: Tensor, reverse: bool) -> Tensor:
    """The state that each step began with (T, B, H)."""
    time = states.shape[0]
    if time == 1:
        return start
    parts = [states.narrow(0, 1, time - 1), start] if reverse else [start, states.narrow(0, 0, time - 1)]
    return torch.cat(parts)


def _walk(
    reverse: bool, grads: Sequence[Tensor | None], factor: Sequence[Tensor], keep: Sequence[Tensor], w_hh: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Carry the gradient of a GRU's states back through time.

    With dh_t the gradient of the state after step t, that of the recurrent product is [dh dh dh] * factors_t, and
    dh_(t-1) = that @ W_hh + dh_t * kept_t + what arrives from outside. Returns dh (T B, H), the products' gradients
    (T B, 3 H), both in the order of time, and the gradient of the start (B, H).
    """
    order, arriving = range(len(factor)), _each_step(grads[0], len(factor))
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


def _each_step(grad: Tensor | None, steps: int) -> Sequence[Tensor | None]:
    """What arrives at every step (B, H) of a gradient (T, B, H)."""
    return [None] * steps if grad is None else torch.split(grad.reshape(-1, grad.shape[2]), grad.shape[1])


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
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(*inputs[:7], output[0])
        ctx.reverse = inputs[7]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        x, w_ih, w_hh, b_ih, b_hh, start, cell, states = ctx.saved_tensors
        gates = _gates(x, states, (w_ih, w_hh, b_ih, b_hh), start, ctx.reverse)
        cells = torch.stack(_cells(gates, cell, ctx.reverse))
        i, f, g, o = gates
        squashed = torch.tanh(cells)
        to_cell = o * (1 - squashed * squashed)
        from_cell = torch.cat([g * i * (1 - i), _before(cells, cell, ctx.reverse) * f * (1 - f), i * (1 - g * g)], -1)
        from_state = squashed * o * (1 - o)
        order = range(states.shape[0])
        arriving = _each_step(grads[0], len(order))
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
        rows, before = x.reshape(-1, x.shape[2]), _before(states, start, ctx.reverse).reshape(-1, states.shape[2])
        d_bias = d_gates.sum(0)
        assert dh is not None and dc is not None
        return (
            torch.mm(d_gates, w_ih).reshape(x.shape), torch.mm(d_gates.t(), rows), torch.mm(d_gates.t(), before),
            d_bias, d_bias, dh.unsqueeze(0), dc.unsqueeze(0), None,
        )  # fmt: skip


def _gates(
    x: Tensor, states: Tensor, weights: tuple[Tensor, Tensor, Tensor, Tensor], start: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gates i, f, g, o of all steps, (T, B, H) each."""
    w_ih, w_hh, b_ih, b_hh = weights
    time, batch, hidden = states.shape
    before = _before(states, start, reverse).reshape(-1, hidden)
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


def gru(
    x: Tensor, start: Tensor, weights: Sequence[Tensor], bias: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool, drop: Callable[[Tensor, float], Tensor],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`torch.gru`: x (T, B, I) or (B, T, I) to all states and the last ones (layers x directions, B, H)."""

    def run(x: Tensor, index: int, own: list[Tensor], reverse: bool) -> tuple[Tensor, ...]:
        return apply(Gru, x, *own, start.narrow(0, index, 1), reverse)

    settings = (bias, layers, dropout if train else 0.0, bidirectional, batch_first, drop)
    states, lasts = _layers(x, weights, run, *settings)
    return states, torch.stack([last[0] for last in lasts])


def lstm(
    x: Tensor, start: Sequence[Tensor], weights: Sequence[Tensor], bias: bool, layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool, drop: Callable[[Tensor, float], Tensor],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`torch.lstm`: like `gru`, with the last cells too."""

    def run(x: Tensor, index: int, own: list[Tensor], reverse: bool) -> tuple[Tensor, ...]:
        return apply(Lstm, x, *own, start[0].narrow(0, index, 1), start[1].narrow(0, index, 1), reverse)

    settings = (bias, layers, dropout if train else 0.0, bidirectional, batch_first, drop)
    states, lasts = _layers(x, weights, run, *settings)
    return states, torch.stack([last[0] for last in lasts]), torch.stack([last[1] for last in lasts])


def _layers(
    x: Tensor, weights: Sequence[Tensor], run: Callable[..., tuple[Tensor, ...]], bias: bool, layers: int,
    dropout: float, bidirectional: bool, batch_first: bool, drop: Callable[[Tensor, float], Tensor],
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:  # fmt: skip
    """Stacked layers and directions; `run` walks one direction and returns its states and its last ones."""
    directions, each = 2 if bidirectional else 1, 4 if bias else 2
    if len(weights) != layers * directions * each:
        raise NotImplementedError("a projection inside an LSTM (proj_size)", "nn.LSTM and nn.Linear")
    h, lasts = x.transpose(0, 1) if batch_first else x, []
    for layer in range(layers):
        if layer and dropout:
            h = drop(h, dropout)
        ways = []
        for way in range(directions):
            index = layer * directions + way
            own = list(weights[index * each : (index + 1) * each])
            if not bias:
                own += [torch.zeros(own[0].shape[0])] * 2
            states, *last = run(h, index, own, way == 1)
            ways.append(states)
            lasts.append(tuple(last))
        h = torch.cat(ways, -1) if len(ways) > 1 else ways[0]
    return h.transpose(0, 1) if batch_first else h, lasts
