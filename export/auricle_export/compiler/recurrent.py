"""`torch.gru` and `torch.lstm`: stacked layers, one or two directions, over one direction's autograd function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from auricle_export.compiler.activation import apply
from auricle_export.compiler.gru import Gru
from auricle_export.compiler.lstm import Lstm


def gru(
    x: Tensor,
    start: Tensor,
    weights: Sequence[Tensor],
    bias: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    drop: Callable[[Tensor, float], Tensor],
) -> tuple[Tensor, Tensor]:
    """`torch.gru`: x (T, B, I) or (B, T, I) to all states and the last ones (layers x directions, B, H)."""

    def run(x: Tensor, index: int, own: list[Tensor], reverse: bool) -> tuple[Tensor, ...]:
        return apply(Gru, x, *own, start.narrow(0, index, 1), reverse)

    settings = (bias, layers, dropout if train else 0.0, bidirectional, batch_first, drop)
    states, lasts = _layers(x, weights, run, *settings)
    return states, torch.stack([last[0] for last in lasts])


def lstm(
    x: Tensor,
    start: Sequence[Tensor],
    weights: Sequence[Tensor],
    bias: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    drop: Callable[[Tensor, float], Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """`torch.lstm`: like `gru`, with the last cells too."""

    def run(x: Tensor, index: int, own: list[Tensor], reverse: bool) -> tuple[Tensor, ...]:
        return apply(Lstm, x, *own, start[0].narrow(0, index, 1), start[1].narrow(0, index, 1), reverse)

    settings = (bias, layers, dropout if train else 0.0, bidirectional, batch_first, drop)
    states, lasts = _layers(x, weights, run, *settings)
    return states, torch.stack([last[0] for last in lasts]), torch.stack([last[1] for last in lasts])


def _layers(
    x: Tensor,
    weights: Sequence[Tensor],
    run: Callable[..., tuple[Tensor, ...]],
    bias: bool,
    layers: int,
    dropout: float,
    bidirectional: bool,
    batch_first: bool,
    drop: Callable[[Tensor, float], Tensor],
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
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
