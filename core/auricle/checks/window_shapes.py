"""The shape that convolutions and poolings give: what a window leaves of what it slides over."""

from __future__ import annotations

import math
from collections.abc import Sequence

from auricle.checks.operator_call import Call, Rule, Shape, check_size, require


def _windows(call: Call, spatial: Shape, kernel: Sequence[int]) -> Shape:
    """Sizes that windows of a convolution or a pooling leave."""
    rank = len(spatial)
    strides, dilations = call.list("strides", [1] * rank), call.list("dilations", [1] * rank)
    pads, auto = call.list("pads", [0] * 2 * rank), call.node.attributes.get("auto_pad", b"NOTSET")
    sound = len(kernel) == len(strides) == len(dilations) == rank and len(pads) == 2 * rank
    require(sound and min([*kernel, *strides, *dilations, 1]) >= 1 and min([*pads, 0]) >= 0, "its windows are unsound")
    made = []
    for i, size in enumerate(spatial):
        if auto in (b"SAME_UPPER", b"SAME_LOWER"):
            made.append(-(-size // strides[i]))
            continue
        both = pads[i] + pads[i + rank] if auto == b"NOTSET" else 0
        room = size + both - dilations[i] * (kernel[i] - 1) - 1
        made.append((-(-room // strides[i]) if call.number("ceil_mode", 0) else room // strides[i]) + 1)
    return tuple(made)


def _conv(call: Call) -> list[Shape]:
    x, w, groups = call.shape(0), call.shape(1), call.number("group", 1)
    require(len(x) == len(w) >= 3 and groups >= 1 and x[1] == w[1] * groups, "its kernel does not fit its input")
    made = _windows(call, x[2:], call.list("kernel_shape", w[2:]))
    require(tuple(call.list("kernel_shape", w[2:])) == w[2:], "its kernel is not the one it names")
    check_size(
        (w[1], *w[2:], *made) if len(made) <= 2 else (math.prod(w[1:]), math.prod(made))
    )  # the columns it unfolds
    return [(x[0], w[0], *made)]


def _conv_transpose(call: Call) -> list[Shape]:
    x, w, groups = call.shape(0), call.shape(1), call.number("group", 1)
    rank = len(x) - 2
    require(len(x) == len(w) >= 3 and groups >= 1 and x[1] == w[0], "its kernel does not fit its input")
    require(call.node.attributes.get("auto_pad", b"NOTSET") == b"NOTSET", "it uses auto_pad")
    require("output_shape" not in call.node.attributes, "it uses output_shape")
    strides, dilations = call.list("strides", [1] * rank), call.list("dilations", [1] * rank)
    pads, more = call.list("pads", [0] * 2 * rank), call.list("output_padding", [0] * rank)
    require(len(strides) == len(dilations) == len(more) == rank and len(pads) == 2 * rank, "its windows are unsound")
    require(min([*strides, *dilations]) >= 1 and min([*pads, *more]) >= 0, "its windows are unsound")
    made = tuple(
        strides[i] * (x[2 + i] - 1) + more[i] + (w[2 + i] - 1) * dilations[i] + 1 - pads[i] - pads[i + rank]
        for i in range(rank)
    )
    check_size((math.prod(w[1:]), math.prod(x[2:])))
    return [(x[0], w[1] * groups, *made)]


def _pool(call: Call) -> list[Shape]:
    x = call.shape()
    require(len(x) >= 3, "its input has no length to pool over")
    return [(*x[:2], *_windows(call, x[2:], call.list("kernel_shape")))] * len(call.node.outputs)


def _global_pool(call: Call) -> list[Shape]:
    x = call.shape()
    require(len(x) >= 3, "its input has no length to pool over")
    return [(*x[:2], *(1 for _ in x[2:]))]


WINDOWS: dict[str, Rule] = {
    "AveragePool": _pool,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "LpPool": _pool,
    "MaxPool": _pool,
}
"""Operators that slide a window."""
