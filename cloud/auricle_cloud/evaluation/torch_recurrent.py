"""GRU, LSTM and RNN of an `evaluate` graph in PyTorch, as ONNX defines them: gates zrh and iofc, time first.

Source: https://github.com/onnx/onnx/blob/v1.17.0/docs/Operators.md#GRU
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from auricle_cloud.evaluation.torch_operators import OPERATORS, Call, Operator, Tensor

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, Tensor, Tensor], State]
"""(x_t W' + input biases (B, G H), state before, R' (H, G H), recurrent biases (G H,)) -> state after."""


def _recurrent(gates: int, vectors: int, make_step: Callable[[Call, int], Step]) -> Operator:
    """An operator of so many gates and state vectors a direction."""

    def run(call: Call) -> tuple[Tensor, ...]:
        x: Any = call.inputs[0]
        hidden = call.inputs[2].shape[-1]
        _refuse_unknown(call, 5 + vectors)
        ways = {b"forward": (False,), b"reverse": (True,), b"bidirectional": (False, True)}
        found = []
        for place, reverse in enumerate(ways[call.get("direction", b"forward")]):
            w, r = (call.inputs[i][place].mT for i in (1, 2))
            bias = call.inputs[3][place] if call.has(3) else x.new_zeros(2 * gates * hidden)
            given = [call.input(5 + i) for i in range(vectors)]
            state = tuple(x.new_zeros(x.shape[1], hidden) if s is None else s[place] for s in given)
            projected = x @ w + bias[: gates * hidden]
            found.append(_sequence(call, projected, state, make_step(call, hidden), r, bias[gates * hidden :], reverse))
        states, *last = ([way[i] for way in found] for i in range(vectors + 1))
        return call.torch.stack(states, dim=1), *(call.torch.stack(ends) for ends in last)

    return run


def _sequence(
    call: Call, projected: Tensor, state: State, step: Step, r: Tensor, bias: Tensor, reverse: bool
) -> tuple[Tensor, ...]:
    """All states (T, B, H) of one direction, and the last of each state vector."""
    steps = range(projected.shape[0])
    states: list[Tensor] = [None] * len(steps)
    for t in reversed(steps) if reverse else steps:
        state = step(projected[t], state, r, bias)
        states[t] = state[0]
    return call.torch.stack(states), *state


def _refuse_unknown(call: Call, most: int) -> None:
    """Settings that none of PyTorch's layers has."""
    for name, default in (("layout", 0), ("clip", None), ("input_forget", 0)):
        call.require(name, default)
    if call.has(4) or len(call.inputs) > most:
        call.refuse("lengths of its own for each sample, or peepholes")


def _gru_step(call: Call, hidden: int) -> Step:
    _refuse_activations(call, b"Sigmoid", b"Tanh")
    late = bool(call.get("linear_before_reset", 0))
    torch: Any = call.torch

    def step(x: Tensor, state: State, r: Tensor, bias: Tensor) -> State:
        h = state[0]
        two = 2 * hidden
        gates = torch.sigmoid(x[:, :two] + h @ r[:, :two] + bias[:two])
        update, reset = gates[:, :hidden], gates[:, hidden:]
        if late:
            new = torch.tanh(x[:, two:] + reset * (h @ r[:, two:] + bias[two:]))
        else:
            new = torch.tanh(x[:, two:] + (reset * h) @ r[:, two:] + bias[two:])
        return ((1 - update) * new + update * h,)

    return step


def _lstm_step(call: Call, hidden: int) -> Step:
    _refuse_activations(call, b"Sigmoid", b"Tanh", b"Tanh")
    torch: Any = call.torch

    def step(x: Tensor, state: State, r: Tensor, bias: Tensor) -> State:
        h, cell = state
        i, o, f, c = torch.split(x + h @ r + bias, hidden, dim=1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(c)
        return torch.sigmoid(o) * torch.tanh(cell), cell

    return step


def _rnn_step(call: Call, hidden: int) -> Step:
    names = set(call.get("activations", (b"Tanh",)))
    if names not in ({b"Tanh"}, {b"Relu"}):
        call.refuse("other activations than one of tanh and relu")
    squash = call.torch.tanh if names == {b"Tanh"} else call.torch.relu
    return lambda x, state, r, bias: (squash(x + state[0] @ r + bias),)


def _refuse_activations(call: Call, *usual: bytes) -> None:
    both = call.get("direction", b"forward") == b"bidirectional"
    call.require("activations", usual * (2 if both else 1))


RECURRENT: dict[str, Operator] = {
    "GRU": _recurrent(3, 1, _gru_step),
    "LSTM": _recurrent(4, 2, _lstm_step),
    "RNN": _recurrent(1, 1, _rnn_step),
}
"""Recurrent operators by name."""
KNOWN: dict[str, Operator] = {**OPERATORS, **RECURRENT}
"""Every operator that can be run."""
