"""GRU and LSTM, unrolled in time: TensorFlow Lite has no GRU, and its LSTM wants four matrices where a pack has one.

The input's projections of all time steps are one product. The gates of a step are one more: the pack's order of gates
is kept, ONNX's is only looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from auricle_export.tflite.arithmetic import Numbers
from auricle_export.tflite.layers import fully_connected
from auricle_export.tflite.trace import Constant, Places
from auricle_export.tflite.translation import Live, Node, Translation, Value

GATES = {"GRU": "zrh", "LSTM": "iofc"}
"""ONNX's order of gates."""


@dataclass(frozen=True)
class Cell:
    """One direction of a layer: matrices (G H, I) and (G H, H), their biases, and the order of the gates' rows."""

    input_weight: int
    hidden_weight: int
    input_bias: int
    hidden_bias: int
    gates: str
    hidden: int


def _recurrent(t: Translation, node: Node) -> None:
    _refuse_variants(node)
    x = t.live(node)
    time, batch, width = x.shape
    hidden = node.get("hidden_size", 0)
    directions = 2 if node.get("direction", "forward") == "bidirectional" else 1
    rows = t.draft.reshape(t.realise(x), (time * batch, width))
    sequences, lasts = [], []
    for d in range(directions):
        cell = _cell(t, node, d, hidden)
        backward = d == 1 or node.get("direction", "forward") == "reverse"
        start = [_initial(t, node, place, d, (batch, hidden)) for place in (5, 6)[: 1 + (node.operator == "LSTM")]]
        states = _STEPS[node.operator](t, cell, rows, time, batch, backward, start)
        lasts.append(states[-1])
        outputs = [state[0] for state in states]
        sequences.append(outputs[::-1] if backward else outputs)
    _finish(t, node, sequences, lasts, (batch, hidden))


def _refuse_variants(node: Node) -> None:
    if node.operator == "GRU" and not node.get("linear_before_reset", 0):
        raise node.refuse("its reset gate acts before the product; PyTorch's acts after (linear_before_reset = 1)")
    if node.has(4) or node.has(7):
        raise node.refuse("it has sequence lengths or peepholes")
    if any(node.get(name, None) for name in ("activations", "clip", "layout", "input_forget")):
        raise node.refuse("it has other activations, a clip or another layout than PyTorch's")


def _cell(t: Translation, node: Node, direction: int, hidden: int) -> Cell:
    """The weights of a direction, gates in the order in which the pack has them."""
    gates = GATES[node.operator]
    weight, recurrence = (_part(t, node, place, direction) for place in (1, 2))
    order = _pack_order(weight, gates, hidden)
    span = len(gates) * hidden
    if node.has(3):
        both = _part(t, node, 3, direction)
        biases: list[Value] = [_rows(both, slice(None, span)), _rows(both, slice(span, None))]
    else:
        biases = [Constant(np.zeros(span, np.float32))] * 2
    parts = [_reorder(part, gates, order, hidden) for part in (weight, recurrence, *biases)]
    tensors = [t.realise(part) for part in parts]
    return Cell(tensors[0], tensors[1], tensors[2], tensors[3], order, hidden)


def _part(t: Translation, node: Node, position: int, direction: int) -> Value:
    value = t.value(node.inputs[position])
    if isinstance(value, Live):
        raise node.refuse(f"its weights {node.inputs[position]} depend on more than the pack's tensors")
    return _rows(value, direction)


def _rows(value: Value, key: int | slice) -> Value:
    if isinstance(value, Places):
        return Places(value.index[key])
    assert isinstance(value, Constant)
    return Constant(value.array[key])


def _pack_order(weight: Value, gates: str, hidden: int) -> str:
    """Gates in the order in which their rows follow each other in the flat vector."""
    if not isinstance(weight, Places):
        return gates
    first = {gate: int(weight.index[i * hidden].min()) for i, gate in enumerate(gates)}
    order = "".join(sorted(gates, key=lambda gate: first[gate]))
    return "rzh" if order[1] == "h" and len(order) == 3 else order


def _reorder(value: Value, gates: str, order: str, hidden: int) -> Value:
    blocks = [_rows(value, slice(gates.index(g) * hidden, (gates.index(g) + 1) * hidden)) for g in order]
    if isinstance(blocks[0], Places):
        return Places(np.concatenate([block.index for block in blocks if isinstance(block, Places)]))
    return Constant(np.concatenate([block.array for block in blocks if isinstance(block, Constant)]))


def _initial(t: Translation, node: Node, position: int, direction: int, shape: tuple[int, int]) -> int:
    if not node.has(position):
        return t.draft.constant(np.zeros(shape, np.float32))
    value = t.value(node.inputs[position])
    if isinstance(value, Live):
        raise node.refuse("its initial state depends on the input")
    return t.draft.reshape(t.realise(_rows(value, direction)), shape)


def _unstack(t: Translation, rows: int, time: int, batch: int, backward: bool) -> list[int]:
    span = t.draft.shape(rows)[1]
    stacked = t.draft.reshape(rows, (time, batch, span))
    steps = t.draft.add_many("UNPACK", [stacked], [(batch, span)] * time, "UnpackOptions", Num=time, Axis=0)
    return steps[::-1] if backward else steps


def _split(t: Translation, tensor: int, sizes: Sequence[int]) -> list[int]:
    batch = t.draft.shape(tensor)[0]
    where = [t.draft.constant(np.array(sizes, np.int32)), t.draft.constant(np.array(1, np.int32))]
    shapes = [(batch, n) for n in sizes]
    return t.draft.add_many("SPLIT_V", [tensor, *where], shapes, "SplitVOptions", NumSplits=len(sizes))


def _gru(
    t: Translation, cell: Cell, rows: int, time: int, batch: int, backward: bool, start: list[int]
) -> list[list[int]]:
    """r, z = sigmoid(...); n = tanh(x_n + r h_n); h' = n + z (h - n). r and z are neighbours and done together."""
    (h,), states, hidden = start, [], cell.hidden
    order = cell.gates.replace("rz", "+").replace("zr", "-")
    pair = "rz" if "+" in order else "zr"
    sizes = [hidden if part == "h" else 2 * hidden for part in order]
    candidate_place = order.index("h")

    def parts(tensor: int) -> tuple[int, int]:
        both = _split(t, tensor, sizes)
        return both[1 - candidate_place], both[candidate_place]

    projected = parts(fully_connected(t, rows, cell.input_weight, cell.input_bias))
    steps = zip(*(_unstack(t, part, time, batch, backward) for part in projected), strict=True)
    n = Numbers(t, h)
    for pair_step, candidate_step in steps:
        pair_share, candidate_share = parts(fully_connected(t, h, cell.hidden_weight, cell.hidden_bias))
        wide = Numbers(t, pair_share)
        opened = _split(t, wide.apply("LOGISTIC", wide.add(pair_step, pair_share)), [hidden] * 2)
        r, z = opened[pair.index("r")], opened[pair.index("z")]
        candidate = n.apply("TANH", n.add(candidate_step, n.mul(r, candidate_share)))
        h = n.add(candidate, n.mul(z, n.sub(h, candidate)))
        states.append([h])
    return states


def _lstm(
    t: Translation, cell: Cell, rows: int, time: int, batch: int, backward: bool, start: list[int]
) -> list[list[int]]:
    """i, o, f = sigmoid(...); c' = f c + i tanh(...); h' = o tanh(c')."""
    (h, c), states = start, []
    projected = fully_connected(t, rows, cell.input_weight, cell.input_bias)
    steps = _unstack(t, projected, time, batch, backward)
    n = Numbers(t, h)
    wide = Numbers(t, steps[0])
    for step in steps:
        recurrence = fully_connected(t, h, cell.hidden_weight, cell.hidden_bias)
        parts = _split(t, wide.add(step, recurrence), [cell.hidden] * 4)
        gates = dict(zip(cell.gates, parts, strict=True))
        i, o, f = (n.apply("LOGISTIC", gates[gate]) for gate in "iof")
        c = n.add(n.mul(f, c), n.mul(i, n.apply("TANH", gates["c"])))
        h = n.mul(o, n.apply("TANH", c))
        states.append([h, c])
    return states


_STEPS = {"GRU": _gru, "LSTM": _lstm}


def _finish(
    t: Translation, node: Node, sequences: list[list[int]], lasts: list[list[int]], shape: tuple[int, int]
) -> None:
    """Outputs: the sequence (T, D, B, H) and the last states (D, B, H), as far as somebody reads them."""
    names = [name if name and t.uses[name] else "" for name in (*node.outputs, "", "")]
    if names[0]:
        by_direction = [_pack(t, states, shape) for states in sequences]
        made = by_direction[0] if len(by_direction) == 1 else None
        time = len(sequences[0])
        if made is None:
            made = t.draft.add(
                "PACK", by_direction, (time, len(by_direction), *shape), "PackOptions", ValuesCount=2, Axis=1
            )
        t.set(names[0], t.draft.reshape(made, (time, len(by_direction), *shape)))
    for place, name in enumerate(names[1:3]):
        if name:
            t.set(name, _pack(t, [states[place] for states in lasts], shape))


def _pack(t: Translation, tensors: list[int], shape: tuple[int, int]) -> int:
    if len(tensors) == 1:
        return t.draft.reshape(tensors[0], (1, *shape))
    return t.draft.add("PACK", tensors, (len(tensors), *shape), "PackOptions", ValuesCount=len(tensors), Axis=0)


RECURRENT: dict[str, Callable[[Translation, Node], None]] = {"GRU": _recurrent, "LSTM": _recurrent}
"""ONNX operators of this kind, and how each is written."""
