"""ONNX's GRU and LSTM as operators of PyTorch, and what both backward passes need of a sequence of states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from onnxscript import FLOAT, opset18
from torch import Tensor

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


def _stack_gates(weight: FLOAT, order: Sequence[int]) -> FLOAT:
    """A weight or bias with its gates along the first axis in ONNX's order, under a leading axis of directions."""
    gates = OPSET.Split(weight, axis=0, num_outputs=len(order))
    stacked: FLOAT = OPSET.Unsqueeze(OPSET.Concat(*[gates[i] for i in order], axis=0), [0])
    return stacked


def _parameters(w_ih: FLOAT, w_hh: FLOAT, b_ih: FLOAT, b_hh: FLOAT, order: Sequence[int]) -> list[FLOAT]:
    bias = OPSET.Concat(_stack_gates(b_ih, order), _stack_gates(b_hh, order), axis=1)
    return [_stack_gates(w_ih, order), _stack_gates(w_hh, order), bias]


def _hidden(weight: FLOAT) -> int:
    return int(cast("Any", weight).shape[1])


def _gru_to_onnx(x: FLOAT, w_ih: FLOAT, w_hh: FLOAT, b_ih: FLOAT, b_hh: FLOAT, start: FLOAT, reverse: bool) -> FLOAT:
    """PyTorch's gates are r, z, n; ONNX's z, r, h."""
    y, _ = OPSET.GRU(
        x,
        *_parameters(w_ih, w_hh, b_ih, b_hh, (1, 0, 2)),
        None,
        start,
        hidden_size=_hidden(w_hh),
        linear_before_reset=1,
        direction="reverse" if reverse else "forward",
    )
    return OPSET.Squeeze(y, [1])  # type: ignore[no-any-return]


def _lstm_to_onnx(
    x: FLOAT, w_ih: FLOAT, w_hh: FLOAT, b_ih: FLOAT, b_hh: FLOAT, start: FLOAT, cell: FLOAT, reverse: bool
) -> FLOAT:
    """PyTorch's gates are i, f, g, o; ONNX's i, o, f, c."""
    y, _, _ = OPSET.LSTM(
        x,
        *_parameters(w_ih, w_hh, b_ih, b_hh, (0, 3, 1, 2)),
        None,
        start,
        cell,
        hidden_size=_hidden(w_hh),
        direction="reverse" if reverse else "forward",
    )
    return OPSET.Squeeze(y, [1])  # type: ignore[no-any-return]


def translations() -> dict[Any, Callable[..., Any]]:
    """For `torch.onnx.export(custom_translation_table=...)`."""
    ops = torch.ops.auricle
    return {ops.gru_sequence.default: _gru_to_onnx, ops.lstm_sequence.default: _lstm_to_onnx}


def states_before(states: Tensor, start: Tensor, reverse: bool) -> Tensor:
    """The state that each step began with (T, B, H)."""
    time = states.shape[0]
    if time == 1:
        return start
    parts = [states.narrow(0, 1, time - 1), start] if reverse else [start, states.narrow(0, 0, time - 1)]
    return torch.cat(parts)


def each_step(grad: Tensor | None, steps: int) -> Sequence[Tensor | None]:
    """What arrives at every step (B, H) of a gradient (T, B, H)."""
    return [None] * steps if grad is None else torch.split(grad.reshape(-1, grad.shape[2]), grad.shape[1])
