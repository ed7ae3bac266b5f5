"""The shape that operators give which move numbers instead of computing them, and the constants that they hand on."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from auricle.checks.onnx_reader import HIGHEST_RANK, Tensor
from auricle.checks.operator_call import Call, Constant, Rule, Shape, UnsoundNodeError, axis_of, broadcast
from auricle.checks.operator_shapes import ARITHMETIC, constant_of
from auricle.checks.window_shapes import WINDOWS

SMALL = 1024
"""Constants of at most so many numbers are followed from node to node: they may decide on a shape."""


def _reshape(call: Call) -> list[Shape]:
    shape, wanted = call.shape(), call.numbers(1)
    made = [
        shape[i] if dim == 0 and not call.number("allowzero", 0) and i < len(shape) else dim
        for i, dim in enumerate(wanted)
    ]
    if made.count(-1) == 1:
        rest = math.prod(dim for dim in made if dim != -1)
        made[made.index(-1)] = math.prod(shape) // rest if rest else 0
    if math.prod(made) != math.prod(shape) or any(dim < 0 for dim in made):
        raise UnsoundNodeError(f"it reshapes {shape} to {tuple(wanted)}")
    return [tuple(made)]


def _flatten(call: Call) -> list[Shape]:
    shape, axis = call.shape(), call.number("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise UnsoundNodeError(f"it names axis {axis} of {len(shape)}")
    cut = axis if axis >= 0 else axis + len(shape)
    return [(math.prod(shape[:cut]), math.prod(shape[cut:]))]


def _transpose(call: Call) -> list[Shape]:
    shape = call.shape()
    order = call.list("perm", list(range(len(shape)))[::-1])
    if sorted(order) != list(range(len(shape))):
        raise UnsoundNodeError("its order is not one of its input's axes")
    return [tuple(shape[i] for i in order)]


def _squeeze(call: Call) -> list[Shape]:
    shape = call.shape()
    axes = call.numbers(1) if call.has(1) else [i for i, dim in enumerate(shape) if dim == 1]
    gone = {axis_of(axis, len(shape)) for axis in axes}
    if any(shape[i] != 1 for i in gone):
        raise UnsoundNodeError("it drops an axis that is longer than 1")
    return [tuple(dim for i, dim in enumerate(shape) if i not in gone)]


def _unsqueeze(call: Call) -> list[Shape]:
    shape, axes = call.shape(), call.numbers(1)
    rank = len(shape) + len(axes)
    new = {axis_of(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise UnsoundNodeError("it adds an axis twice")
    rest = iter(shape)
    return [tuple(1 if i in new else next(rest) for i in range(rank))]


def _concat(call: Call) -> list[Shape]:
    shapes = [call.shape(i) for i in range(len(call.shapes))]
    axis = axis_of(call.number("axis", 0), len(shapes[0])) if shapes else 0
    if len({(*s[:axis], *s[axis + 1 :]) for s in shapes}) != 1 or len({len(s) for s in shapes}) != 1:
        raise UnsoundNodeError("its inputs do not fit each other")
    return [(*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])]


def _split(call: Call) -> list[Shape]:
    shape, parts = call.shape(), len(call.node.outputs)
    axis = axis_of(call.number("axis", 0), len(shape))
    each = -(-shape[axis] // parts)
    sizes = call.numbers(1) if call.has(1) else [each] * (parts - 1) + [shape[axis] - each * (parts - 1)]
    if len(sizes) != parts or sum(sizes) != shape[axis] or min(sizes) < 0:
        raise UnsoundNodeError(f"its parts are not those of an axis of {shape[axis]}")
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


def slice_cuts(call: Call) -> list[tuple[int, slice]]:
    """Axis and span of each cut of a Slice. An end beyond the axis is its end, as in Python."""
    shape, starts, ends = call.shape(), call.numbers(1), call.numbers(2)
    axes = call.numbers(3) if call.has(3) else list(range(len(starts)))
    steps = call.numbers(4) if call.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise UnsoundNodeError("its starts, ends, axes and steps do not fit each other")
    cuts = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = axis_of(axis, len(shape))
        dim = shape[axis]
        low, high = (-1, dim - 1) if step < 0 else (0, dim)
        first, last = (min(max(at + dim if at < 0 else at, low), high) for at in (start, end))
        cuts.append((axis, slice(first, None if last < 0 else last, step)))
    return cuts


def _slice(call: Call) -> list[Shape]:
    made = list(call.shape())
    for axis, cut in slice_cuts(call):
        made[axis] = len(range(*cut.indices(call.shape()[axis])))
    return [tuple(made)]


def _gather(call: Call) -> list[Shape]:
    data, indices = call.shape(0), call.shape(1)
    axis = axis_of(call.number("axis", 0), len(data))
    return [(*data[:axis], *indices, *data[axis + 1 :])]


def _gather_nd(call: Call) -> list[Shape]:
    data, indices, batch = call.shape(0), call.shape(1), call.number("batch_dims", 0)
    if not indices or not 0 <= batch < len(indices) or not 0 < indices[-1] <= len(data) - batch:
        raise UnsoundNodeError("its indices do not fit its input")
    return [(*indices[:-1], *data[batch + indices[-1] :])]


def _pad(call: Call) -> list[Shape]:
    made, pads = list(call.shape()), call.numbers(1)
    axes = call.numbers(3) if call.has(3) else list(range(len(made)))
    if len(pads) != 2 * len(axes):
        raise UnsoundNodeError("its padding does not fit its input")
    for i, axis in enumerate(axes):
        made[axis_of(axis, len(made))] += pads[i] + pads[i + len(axes)]
    return [tuple(made)]


def _tile(call: Call) -> list[Shape]:
    shape, repeats = call.shape(), call.numbers(1)
    if len(repeats) != len(shape) or min([*repeats, 0]) < 0:
        raise UnsoundNodeError("its repeats do not fit its input")
    return [tuple(dim * times for dim, times in zip(shape, repeats, strict=True))]


def _constant(call: Call) -> list[Shape]:
    value = constant_of(call.node)
    if value is None or len(call.node.attributes) != 1:
        raise UnsoundNodeError("it is a constant without a number")
    return [value.shape]


def _range(call: Call) -> list[Shape]:
    start, limit, delta = (call.numbers(i)[0] if call.shape(i) == () else 0 for i in range(3))
    if delta == 0:
        raise UnsoundNodeError("its step is nothing or not one number")
    return [(max(0, -(-(limit - start) // delta)),)]


def _one_hot(call: Call) -> list[Shape]:
    shape, depth = call.shape(), call.numbers(1)
    axis = axis_of(call.number("axis", -1), len(shape) + 1)
    if len(depth) != 1:
        raise UnsoundNodeError("its depth is not one number")
    return [(*shape[:axis], depth[0], *shape[axis:])]


def _blocks(call: Call) -> list[Shape]:
    shape, size = call.shape(), call.number("blocksize", 0)
    if len(shape) != 4 or size < 1:
        raise UnsoundNodeError("its block does not fit its input")
    n, c, h, w = shape
    if call.node.operator == "DepthToSpace":
        return [(n, c // size**2, h * size, w * size)]
    return [(n, c * size**2, h // size, w // size)]


def _columns(call: Call) -> list[Shape]:
    """Col2Im: columns (N, C k, L) summed into an image (N, C, *image)."""
    shape, image, block = call.shape(), call.numbers(1), call.numbers(2)
    size = math.prod(block)
    if len(shape) != 3 or size < 1 or shape[1] % size:
        raise UnsoundNodeError("its block does not fit its input")
    return [(shape[0], shape[1] // size, *image)]


LAYOUT: dict[str, Rule] = {
    "Col2Im": _columns,
    "Concat": _concat,
    "Constant": _constant,
    "DepthToSpace": _blocks,
    "Flatten": _flatten,
    "ConstantOfShape": lambda call: [tuple(call.numbers(0))],
    "EyeLike": lambda call: [call.shape()],
    "Expand": lambda call: [broadcast(call.shape(), tuple(call.numbers(1)))],
    "Gather": _gather,
    "GatherElements": lambda call: [call.shape(1)],
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": lambda call: [(len(_dims(call)),)],
    "Size": lambda call: [call.shape()[:0]],
    "Slice": _slice,
    "SpaceToDepth": _blocks,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""Operators that move numbers, or make them."""
RULES: dict[str, Rule] = {**ARITHMETIC, **WINDOWS, **LAYOUT}
"""Every operator that a pack's graph may use."""


def _dims(call: Call) -> Shape:
    return call.shape()[call.number("start", 0) : call.number("end", HIGHEST_RANK)]


def _fill(call: Call, shape: Shape) -> Constant:
    value = call.node.attributes.get("value")
    number = value.array.reshape(-1)[0] if isinstance(value, Tensor) else np.float32(0)
    return np.full(shape, number)


def _cast(call: Call, shape: Shape) -> Constant | None:
    kind = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}.get(call.number("to", 0))
    return None if kind is None else call.constant(0).astype(kind)


def _take(call: Call, shape: Shape) -> Constant:
    data = call.constant(0)
    return np.take(data, call.constant(1), axis=axis_of(call.number("axis", 0), data.ndim))


def _cut(call: Call, shape: Shape) -> Constant:
    cuts = [slice(None)] * call.constant(0).ndim
    for axis, cut in slice_cuts(call):
        cuts[axis] = cut
    return call.constant(0)[tuple(cuts)]


def _reshape_value(call: Call, shape: Shape) -> Constant:
    return call.constant(0).reshape(shape)


FOLDED: dict[str, Callable[[Call, Shape], Constant | None]] = {
    "Shape": lambda call, shape: np.array(_dims(call), np.int64),
    "Size": lambda call, shape: np.array(math.prod(call.shape()), np.int64),
    "Constant": lambda call, shape: constant_of(call.node),
    "ConstantOfShape": _fill,
    "Cast": _cast,
    "Identity": lambda call, shape: call.constant(0),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten"), _reshape_value),
    "Expand": lambda call, shape: np.broadcast_to(call.constant(0), shape),
    "Concat": lambda call, shape: np.concatenate(
        [call.constant(i) for i in range(len(call.shapes))], call.number("axis", 0)
    ),
    "Gather": _take,
    "Slice": _cut,
    "Range": lambda call, shape: np.arange(*(int(call.constant(i)) for i in range(3))),
    "Add": lambda call, shape: call.constant(0) + call.constant(1),
    "Sub": lambda call, shape: call.constant(0) - call.constant(1),
    "Mul": lambda call, shape: call.constant(0) * call.constant(1),
    "Div": lambda call, shape: _quotient(call),
    "Neg": lambda call, shape: -call.constant(0),
    "Max": lambda call, shape: np.maximum(call.constant(0), call.constant(1)),
    "Min": lambda call, shape: np.minimum(call.constant(0), call.constant(1)),
    "Equal": lambda call, shape: call.constant(0) == call.constant(1),
    "Where": lambda call, shape: np.where(call.constant(0), call.constant(1), call.constant(2)),
    "ReduceProd": lambda call, shape: call.constant(0).prod(dtype=call.constant(0).dtype).reshape(shape),
}
"""How small constants go on, where every input of a node is one."""


def _quotient(call: Call) -> Constant | None:
    a, b = call.constant(0), call.constant(1)
    whole = a.dtype.kind in "iu" and b.dtype.kind in "iu" and (a >= 0).all() and (b > 0).all()
    return a // b if whole else None


def fold_constant(call: Call, shape: Shape) -> Constant | None:
    """The value of a node's first output, of this shape, where it is small and its inputs are known."""
    fold = FOLDED.get(call.node.operator)
    free = call.node.operator in ("Shape", "Size")
    if fold is None or math.prod(shape) > SMALL or not (free or all(value is not None for value in call.constants)):
        return None
    try:
        with np.errstate(all="ignore"):
            value = fold(call, shape)
    except (UnsoundNodeError, ValueError, IndexError, TypeError, OverflowError):
        return None
    return value if value is not None and value.shape == shape else None
