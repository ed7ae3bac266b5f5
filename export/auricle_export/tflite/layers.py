"""Products, convolutions, pools and normalisations.

Convolutions want channels last. A kernel (O, I, *K) as the pack orders it is TensorFlow Lite's (O, *K, I) already where
I or K is 1; otherwise it is transposed in the graph, because the file must keep the pack's order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from auricle_export.tflite.arithmetic import Numbers, reduce
from auricle_export.tflite.moves import pad, split
from auricle_export.tflite.trace import Constant, Places
from auricle_export.tflite.translation import FUSED, Live, Node, Translation, Value

SAME, VALID = 0, 1
LOWEST = float(np.finfo(np.float32).min)


def fully_connected(t: Translation, rows: int, weight: int, bias: int | None = None) -> int:
    """x (M, K), W (N, K), b (N,) or none, to x W^T + b (M, N)."""
    (m, _), (n, _) = t.draft.shape(rows), t.draft.shape(weight)
    offset = t.draft.constant(np.zeros(n, np.float32)) if bias is None else bias
    return t.draft.add("FULLY_CONNECTED", [rows, weight, offset], (m, n), "FullyConnectedOptions", **{FUSED: 0})


def _matmul(t: Translation, node: Node) -> None:
    a, b = node.inputs
    name, shape = node.outputs[0], t.shape(node.outputs[0])
    right = t.value(b)
    if min(len(t.shape(a)), len(t.shape(b))) < 2:
        raise node.refuse("an operand is a vector")
    if not isinstance(right, Live) and len(t.shape(b)) == 2:
        x = t.live(node)
        rows = t.draft.reshape(t.realise(x), (math.prod(x.shape[:-1]), x.shape[-1]))
        t.set(name, t.draft.reshape(fully_connected(t, rows, t.realise(right, (1, 0))), shape))
        return
    operands = [t.realise(t.value(operand)) for operand in (a, b)]
    t.set(name, t.draft.add("BATCH_MATMUL", operands, shape, "BatchMatMulOptions"))


def _gemm(t: Translation, node: Node) -> None:
    if node.get("alpha", 1.0) != 1.0 or node.get("beta", 1.0) != 1.0:
        raise node.refuse("its alpha or beta is not 1")
    shape = t.shape(node.outputs[0])
    rows = t.realise(t.value(node.inputs[0]), (1, 0) if node.get("transA", 0) else None)
    weight = t.realise(t.value(node.inputs[1]), None if node.get("transB", 0) else (1, 0))
    if not node.has(2):
        t.set(node.outputs[0], fully_connected(t, rows, weight))
    elif t.shape(node.inputs[2]) in ((shape[1],), (1, shape[1])):
        bias = t.draft.reshape(t.realise(t.value(node.inputs[2])), (shape[1],))
        t.set(node.outputs[0], fully_connected(t, rows, weight, bias))
    else:
        added = [fully_connected(t, rows, weight), t.aligned(node.inputs[2], (0, 1))]
        t.set(node.outputs[0], t.draft.add("ADD", added, shape, "AddOptions", **{FUSED: 0}))


@dataclass(frozen=True)
class Window:
    """What a convolution or pool sees: sizes, strides, dilations and pads of two axes, height first."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[tuple[int, int], tuple[int, int]]


def _window(node: Node, kernel: tuple[int, ...], spatial: tuple[int, ...]) -> Window:
    """Read a node's window; one axis becomes two, the first of size 1."""
    n = len(kernel)
    if n not in (1, 2):
        raise node.refuse(f"it has {n} spatial axes, one or two are possible")
    strides, dilations = node.get("strides", [1] * n), node.get("dilations", [1] * n)
    begins_ends = node.get("pads", [0] * 2 * n)
    pads = list(zip(begins_ends[:n], begins_ends[n:], strict=True))
    automatic = node.get("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        pads = [_same_pads(*sizes) for sizes in zip(spatial, kernel, strides, dilations, strict=True)]
        pads = pads if automatic == "SAME_UPPER" else [(b, a) for a, b in pads]

    def two(values: list[int] | tuple[int, ...]) -> tuple[int, int]:
        return (1, values[0]) if n == 1 else (values[0], values[1])

    both = ((0, 0), pads[0]) if n == 1 else (pads[0], pads[1])
    return Window(two(kernel), two(strides), two(dilations), both)


def _same_pads(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _planes(t: Translation, x: Live) -> Live:
    """Signals (N, C, T) and images (N, C, H, W) as images with their channels last."""
    if len(x.shape) == 4:
        return t.as_live(t.realise(x, (0, 2, 3, 1)), x.shape, (0, 2, 3, 1))
    n, c, time = x.shape
    tensor = t.draft.reshape(t.realise(x, (0, 2, 1)), (n, 1, time, c))
    return t.as_live(tensor, (n, c, 1, time), (0, 2, 3, 1))


def _set_planes(t: Translation, node: Node, tensor: int) -> None:
    """The output of an image operator as the node's own: without the height that a signal was given."""
    shape = t.shape(node.outputs[0])
    if len(shape) == 4:
        t.set(node.outputs[0], tensor, (0, 2, 3, 1))
    else:
        t.set(node.outputs[0], t.draft.reshape(tensor, (shape[0], shape[2], shape[1])), (0, 2, 1))


def _padding(t: Translation, planes: Live, window: Window, value: float = 0.0) -> tuple[int, int]:
    """The input, padded where neither of TensorFlow Lite's own two paddings is what the node says, and which it is."""
    if not np.any(window.pads):
        return planes.tensor, VALID
    sizes = zip(planes.shape[2:], window.kernel, window.strides, window.dilations, strict=True)
    if tuple(_same_pads(*size) for size in sizes) == window.pads:
        return planes.tensor, SAME
    return pad(t, planes, {2: window.pads[0], 3: window.pads[1]}, value), VALID


def _conv(t: Translation, node: Node) -> None:
    x = t.live(node)
    kernel = t.shape(node.inputs[1])
    window, planes = _window(node, kernel[2:], x.shape[2:]), _planes(t, x)
    filters = _as_images(t, node, kernel)
    bias = t.realise(t.value(node.inputs[2])) if node.has(2) else t.draft.constant(np.zeros(kernel[0], np.float32))
    tensor, padding = _padding(t, planes, window)
    n, channels = x.shape[:2]
    shape = (n, *_spatial(t.shape(node.outputs[0])), kernel[0])
    groups = node.get("group", 1)
    if groups == channels and groups > 1:
        made = _convolve(t, window, padding, tensor, t.realise(filters, (1, 2, 3, 0)), bias, shape, kernel[0] // groups)
    elif groups == 1:
        made = _convolve(t, window, padding, tensor, t.realise(filters, (0, 2, 3, 1)), bias, shape)
    else:
        made = _convolve_groups(t, window, padding, (tensor, t.realise(filters, (0, 2, 3, 1)), bias), groups, shape)
    _set_planes(t, node, made)


def _as_images(t: Translation, node: Node, kernel: tuple[int, ...]) -> Value:
    value = t.value(node.inputs[1])
    image = (*kernel[:2], *_spatial(kernel))
    if isinstance(value, Live):
        return t.as_live(t.draft.reshape(t.realise(value), image), image)
    if isinstance(value, Constant):
        return Constant(value.array.reshape(image))
    return Places(value.index.reshape(image))


def _spatial(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[2], shape[3]) if len(shape) == 4 else (1, shape[2])


def _convolve(
    t: Translation,
    window: Window,
    padding: int,
    x: int,
    filters: int,
    bias: int,
    shape: tuple[int, ...],
    multiplier: int = 0,
) -> int:
    (high, wide), (tall, broad) = window.strides, window.dilations
    fields = {
        "Padding": padding,
        "StrideH": high,
        "StrideW": wide,
        "DilationHFactor": tall,
        "DilationWFactor": broad,
        FUSED: 0,
    }
    if multiplier:
        fields["DepthMultiplier"] = multiplier
        return t.draft.add("DEPTHWISE_CONV_2D", [x, filters, bias], shape, "DepthwiseConv2DOptions", **fields)
    return t.draft.add("CONV_2D", [x, filters, bias], shape, "Conv2DOptions", **fields)


def _convolve_groups(
    t: Translation, window: Window, padding: int, operands: tuple[int, int, int], groups: int, shape: tuple[int, ...]
) -> int:
    """One convolution a group, side by side."""
    channels_last = (3, 0, 0)
    pieces = []
    for tensor, axis in zip(operands, channels_last, strict=True):
        whole = t.as_live(tensor, t.draft.shape(tensor))
        pieces.append(split(t, whole, axis, [whole.shape[axis] // groups] * groups))
    part = (*shape[:3], shape[3] // groups)
    made = [_convolve(t, window, padding, x, k, b, part) for x, k, b in zip(*pieces, strict=True)]
    return t.draft.add("CONCATENATION", made, shape, "ConcatenationOptions", Axis=3)


def _pool(t: Translation, node: Node) -> None:
    x, largest = t.live(node), node.operator == "MaxPool"
    if len(node.outputs) > 1:
        raise node.refuse("its indices are used")
    window, planes = _window(node, tuple(node.get("kernel_shape", ())), x.shape[2:]), _planes(t, x)
    if window.dilations != (1, 1):
        raise node.refuse("its window is dilated")
    shape = (*x.shape[:1], *_spatial(t.shape(node.outputs[0])), x.shape[1])
    tensor, padding = _padding(t, planes, window, LOWEST if largest else 0.0)
    if not largest and padding == SAME and node.get("count_include_pad", 0):
        tensor, padding = pad(t, planes, {2: window.pads[0], 3: window.pads[1]}), VALID
    elif not largest and padding == VALID and np.any(window.pads) and not node.get("count_include_pad", 0):
        raise node.refuse("its uneven padding does not count in the average")
    if padding == VALID and shape[1:3] != _valid_size(t.draft.shape(tensor)[1:3], window):
        raise node.refuse("ceil_mode makes it larger than its input")
    (tall, broad), (high, wide) = window.kernel, window.strides
    made = t.draft.add(
        "MAX_POOL_2D" if largest else "AVERAGE_POOL_2D",
        [tensor],
        shape,
        "Pool2DOptions",
        Padding=padding,
        StrideH=high,
        StrideW=wide,
        FilterHeight=tall,
        FilterWidth=broad,
        **{FUSED: 0},
    )
    _set_planes(t, node, made)


def _valid_size(spatial: tuple[int, ...], window: Window) -> tuple[int, ...]:
    return tuple((n - k) // s + 1 for n, k, s in zip(spatial, window.kernel, window.strides, strict=True))


def _global_pool(t: Translation, node: Node) -> None:
    x = t.live(node)
    code = "MEAN" if node.operator == "GlobalAveragePool" else "REDUCE_MAX"
    t.set(node.outputs[0], reduce(t, x, set(range(2, len(x.shape))), code), x.order)


def _normalise(t: Translation, x: Live, axes: set[int], epsilon: float) -> int:
    """(x - mean) / sqrt(variance + epsilon) over those logical axes, in the value's own order."""
    wide = Numbers(t, x.tensor)
    mean = reduce(t, x, axes, "MEAN")
    centred = wide.sub(x.tensor, mean)
    squares = t.as_live(wide.mul(centred, centred), x.shape, x.order)
    variance = reduce(t, squares, axes, "MEAN")
    narrow = Numbers(t, mean)
    return wide.mul(centred, narrow.apply("RSQRT", narrow.add(variance, epsilon)))


def _layer_norm(t: Translation, node: Node) -> None:
    x = t.live(node)
    first = node.get("axis", -1) % len(x.shape)
    if len([name for name in node.outputs if name]) > 1:
        raise node.refuse("its mean or deviation is used")
    tensor = _normalise(t, x, set(range(first, len(x.shape))), node.get("epsilon", 1e-5))
    n = Numbers(t, x.tensor)
    tensor = n.mul(tensor, t.aligned(node.inputs[1], x.order))
    if node.has(2):
        tensor = n.add(tensor, t.aligned(node.inputs[2], x.order))
    t.set(node.outputs[0], tensor, x.order)


def per_channel(t: Translation, name: str, x: Live) -> int:
    """A vector (C,) that broadcasts along the second logical axis of a value."""
    vector = t.realise(t.value(name))
    return t.draft.reshape(vector, [x.shape[1] if axis == 1 else 1 for axis in x.order])


def _instance_norm(t: Translation, node: Node) -> None:
    x = t.live(node)
    tensor = _normalise(t, x, set(range(2, len(x.shape))), node.get("epsilon", 1e-5))
    n = Numbers(t, x.tensor)
    scaled = n.mul(tensor, per_channel(t, node.inputs[1], x))
    t.set(node.outputs[0], n.add(scaled, per_channel(t, node.inputs[2], x)), x.order)


def _batch_norm(t: Translation, node: Node) -> None:
    """(x - mean) scale / sqrt(variance + epsilon) + bias with the statistics that the pack holds."""
    x = t.live(node)
    if node.get("training_mode", 0):
        raise node.refuse("it is in training mode")
    scale, bias, mean, variance = (per_channel(t, name, x) for name in node.inputs[1:5])
    narrow, wide = Numbers(t, scale), Numbers(t, x.tensor)
    factor = narrow.mul(scale, narrow.apply("RSQRT", narrow.add(variance, float(node.get("epsilon", 1e-5)))))
    shift = narrow.sub(bias, narrow.mul(mean, factor))
    t.set(node.outputs[0], wide.add(wide.mul(x.tensor, factor), shift), x.order)


LAYERS: dict[str, Callable[[Translation, Node], None]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "BatchNormalization": _batch_norm,
}
"""ONNX operators of this kind, and how each is written."""
