"""Operators that move, cut, join and pad."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from auricle_export.tflite.translation import Live, Node, Translation


def _transpose(t: Translation, node: Node) -> None:
    x = t.live(node)
    perm = node.get("perm", list(range(len(x.shape)))[::-1])
    t.set(node.outputs[0], x.tensor, [perm.index(axis) for axis in x.order])


def _reshape(t: Translation, node: Node) -> None:
    x = t.live(node)
    t.set(node.outputs[0], t.draft.reshape(t.realise(x), t.shape(node.outputs[0])))


def _axes(t: Translation, node: Node, rank: int) -> list[int]:
    axes = node.get("axes", None)
    if axes is None:
        axes = t.numbers(node, 1).ravel().tolist() if node.has(1) else []
    return [int(a) % rank for a in axes]


def _squeeze(t: Translation, node: Node) -> None:
    x = t.live(node)
    gone = _axes(t, node, len(x.shape)) or [a for a, d in enumerate(x.shape) if d == 1]
    kept = [axis for axis in x.order if axis not in gone]
    tensor = t.draft.reshape(x.tensor, [x.shape[axis] for axis in kept])
    t.set(node.outputs[0], tensor, [sorted(kept).index(axis) for axis in kept])


def _unsqueeze(t: Translation, node: Node) -> None:
    """New axes come first in the order, where they keep channels last."""
    x = t.live(node)
    rank = len(t.shape(node.outputs[0]))
    new = _axes(t, node, rank)
    old = [axis for axis in range(rank) if axis not in new]
    order = [*new, *(old[axis] for axis in x.order)]
    tensor = t.draft.reshape(x.tensor, t.physical(t.shape(node.outputs[0]), order))
    t.set(node.outputs[0], tensor, order)


def _concat(t: Translation, node: Node) -> None:
    shape = t.shape(node.outputs[0])
    axis = node.get("axis", 0) % len(shape)
    order = t.order_for(node.inputs, len(shape))
    pieces = [t.aligned_whole(name, order) for name in node.inputs]
    place = order.index(axis)
    tensor = t.draft.add("CONCATENATION", pieces, t.physical(shape, order), "ConcatenationOptions", Axis=place)
    t.set(node.outputs[0], tensor, order)


def _split(t: Translation, node: Node) -> None:
    x = t.live(node)
    axis = node.get("axis", 0) % len(x.shape)
    sizes = [t.shape(name)[axis] for name in node.outputs]
    pieces = split(t, x, axis, sizes)
    for name, piece in zip(node.outputs, pieces, strict=True):
        t.set(name, piece, x.order)


def split(t: Translation, x: Live, axis: int, sizes: list[int]) -> list[int]:
    """Cut a value along a logical axis; the pieces have its order of axes."""
    if len(sizes) == 1:
        return [x.tensor]
    shapes = [t.physical((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.order) for n in sizes]
    where = [t.draft.constant(np.array(sizes, np.int32)), t.draft.constant(np.array(x.order.index(axis), np.int32))]
    return t.draft.add_many("SPLIT_V", [x.tensor, *where], shapes, "SplitVOptions", NumSplits=len(sizes))


def _slice(t: Translation, node: Node) -> None:
    x = t.live(node)
    starts, ends = t.numbers(node, 1).tolist(), t.numbers(node, 2).tolist()
    axes = t.numbers(node, 3).tolist() if node.has(3) else list(range(len(starts)))
    steps = t.numbers(node, 4).tolist() if node.has(4) else [1] * len(starts)
    spans = {axis: (0, size, 1) for axis, size in enumerate(x.shape)}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        spans[axis % len(x.shape)] = slice(start, end, step).indices(x.shape[axis % len(x.shape)])
    ordered = [spans[axis] for axis in x.order]
    shape = t.physical(t.shape(node.outputs[0]), x.order)
    t.set(node.outputs[0], _cut(t, x.tensor, ordered, shape), x.order)


def _cut(t: Translation, tensor: int, spans: list[tuple[int, int, int]], shape: tuple[int, ...]) -> int:
    if t.draft.shape(tensor) == shape and all(step == 1 for *_, step in spans):
        return tensor
    if all(step == 1 for *_, step in spans):
        bounds = [t.draft.constant(np.array(n, np.int32)) for n in ([s for s, *_ in spans], list(shape))]
        return t.draft.add("SLICE", [tensor, *bounds], shape, "SliceOptions")
    bounds = [t.draft.constant(np.array(n, np.int32)) for n in zip(*spans, strict=True)]
    open_ends = sum(1 << place for place, (_, end, _) in enumerate(spans) if end < 0)
    return t.draft.add("STRIDED_SLICE", [tensor, *bounds], shape, "StridedSliceOptions", EndMask=open_ends)


def _gather(t: Translation, node: Node) -> None:
    x = t.live(node)
    axis, where = node.get("axis", 0) % len(x.shape), t.numbers(node, 1)
    if where.ndim > 1:
        raise node.refuse("its indices have more than one axis")
    index = (where % x.shape[axis]).astype(np.int32)
    order = x.order if where.ndim else tuple(a - (a > axis) for a in x.order if a != axis)
    shape = t.physical(t.shape(node.outputs[0]), order)
    place = x.order.index(axis)
    tensor = t.draft.add("GATHER", [x.tensor, t.draft.constant(index)], shape, "GatherOptions", Axis=place)
    t.set(node.outputs[0], tensor, order)


def _pad(t: Translation, node: Node) -> None:
    x = t.live(node)
    pads = t.numbers(node, 1).tolist()
    axes = [int(a) % len(x.shape) for a in t.numbers(node, 3)] if node.has(3) else list(range(len(x.shape)))
    value = float(t.numbers(node, 2).ravel()[0]) if node.has(2) else 0.0
    if node.get("mode", "constant") != "constant" or min(pads) < 0:
        raise node.refuse("only padding with a constant is possible")
    around = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True))
    t.set(node.outputs[0], pad(t, x, around, value), x.order)


def pad(t: Translation, x: Live, around: dict[int, tuple[int, int]], value: float = 0.0) -> int:
    """Pad logical axes by (before, after) with a number; the value's order of axes stays."""
    pairs = [around.get(axis, (0, 0)) for axis in x.order]
    if not np.any(pairs):
        return x.tensor
    shape = [x.shape[axis] + sum(around.get(axis, (0, 0))) for axis in x.order]
    amounts = t.draft.constant(np.array(pairs, np.int32))
    if value == 0:
        return t.draft.add("PAD", [x.tensor, amounts], shape, "PadOptions")
    return t.draft.add(
        "PADV2", [x.tensor, amounts, t.draft.constant(np.array([value], np.float32))], shape, "PadV2Options"
    )


def _expand(t: Translation, node: Node) -> None:
    shape = t.shape(node.outputs[0])
    t.set(node.outputs[0], t.aligned_whole(node.inputs[0], tuple(range(len(shape))), shape))


def _tile(t: Translation, node: Node) -> None:
    x = t.live(node)
    repeats = t.numbers(node, 1)[list(x.order)].astype(np.int32)
    shape = t.physical(t.shape(node.outputs[0]), x.order)
    t.set(node.outputs[0], t.draft.add("TILE", [x.tensor, t.draft.constant(repeats)], shape, "TileOptions"), x.order)


MOVES: dict[str, Callable[[Translation, Node], None]] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Pad": _pad,
    "Expand": _expand,
    "Tile": _tile,
}
"""ONNX operators of this kind, and how each is written."""
