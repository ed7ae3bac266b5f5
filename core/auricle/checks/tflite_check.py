"""Whether a pack's `.tflite` may be given to LiteRT: operators, sizes, interface, and the map of its weights."""

from __future__ import annotations

import math

from auricle.checks.tflite_reader import FileModel, Vector, read_tflite
from auricle.checks.tflite_weights import check_buffers, network_of, tensors_of
from auricle.errors import PackError
from auricle.packs.graph_interface import FRONTENDS
from auricle.packs.manifest import Tflite
from auricle.packs.pack import Pack

LARGEST_TENSORS = 256 << 20
"""Most bytes that all tensors of a model may take together."""
MOST_AXES = 8
HELD = (0, 2, 3, 1)
"""The axes of a network's state in a `.tflite`."""
KINDS = {0: ("float32", 4), 2: ("int32", 4), 6: ("bool", 1), 9: ("int8", 1)}
"""Number types, by the schema's numbers, and their bytes."""
OPERATORS: dict[str, int] = {
    "ABS": 101,
    "ADD": 0,
    "AVERAGE_POOL_2D": 1,
    "BATCH_MATMUL": 126,
    "BROADCAST_TO": 130,
    "CEIL": 104,
    "CONCATENATION": 2,
    "CONV_2D": 3,
    "COS": 108,
    "DEPTHWISE_CONV_2D": 4,
    "DEQUANTIZE": 6,
    "DIV": 42,
    "ELU": 111,
    "EXP": 47,
    "FLOOR": 8,
    "FULLY_CONNECTED": 9,
    "GATHER": 36,
    "GELU": 150,
    "HARD_SWISH": 117,
    "LEAKY_RELU": 98,
    "LOG": 73,
    "LOGISTIC": 14,
    "LOG_SOFTMAX": 50,
    "MAXIMUM": 55,
    "MAX_POOL_2D": 17,
    "MEAN": 40,
    "MINIMUM": 57,
    "MUL": 18,
    "NEG": 59,
    "PACK": 83,
    "PAD": 34,
    "PADV2": 60,
    "POW": 78,
    "REDUCE_MAX": 82,
    "REDUCE_MIN": 89,
    "RELU": 19,
    "RESHAPE": 22,
    "ROUND": 116,
    "RSQRT": 76,
    "SELECT_V2": 123,
    "SIGN": 158,
    "SIN": 66,
    "SLICE": 65,
    "SOFTMAX": 25,
    "SPLIT_V": 102,
    "SQRT": 75,
    "STRIDED_SLICE": 45,
    "SUB": 41,
    "SUM": 74,
    "TANH": 28,
    "TILE": 69,
    "TRANSPOSE": 39,
    "UNPACK": 88,
}
"""Operators of TensorFlow Lite that a model may use, by the schema's numbers: those that compute, and keep no state."""


def check_tflite(pack: Pack, entry: Tflite) -> None:
    """Check a `.tflite` of a pack before it is loaded.

    Parameters
    ----------
    pack
        The pack that carries the file.
    entry
        Its entry in the manifest.

    Raises
    ------
    PackError
        The file is not a model, has operators other than `OPERATORS`, tensors too large or of another type, data
        outside the file, another interface than the pack's task, or weights elsewhere than the map says.
    """
    check_buffers(pack, entry)
    model = read_tflite(pack.files[entry.file], entry.file)
    _check_graph(model, entry)
    _check_interface(model, pack, entry)
    _check_map(model, pack, entry)


def _check_graph(model: FileModel, entry: Tflite) -> None:
    other = sorted(model.operators - set(OPERATORS.values()))
    if model.subgraphs != 1 or other:
        what = f"the operator {other[0]}" if other and other[0] >= 0 else "an operator of its own or a second graph"
        raise PackError(f"{entry.file} has {what}: only {len(OPERATORS)} standard operators in one graph may be used.")
    if model.outside:
        raise PackError(f"{entry.file} keeps data outside its own tables.")
    total = 0
    for tensor in model.tensors:
        if (
            tensor.kind not in KINDS
            or tensor.strange
            or len(tensor.shape) > MOST_AXES
            or min(tensor.shape, default=1) < 1
        ):
            raise PackError(f"{entry.file} has a tensor of a kind that is not used in packs.")
        total += math.prod(tensor.shape) * KINDS[tensor.kind][1]
        if total > LARGEST_TENSORS:
            raise PackError(f"{entry.file} claims tensors of more than {LARGEST_TENSORS >> 20} MiB.")


def _check_interface(model: FileModel, pack: Pack, entry: Tflite) -> None:
    task, network = pack.manifest.task, network_of(pack, entry)
    taken: list[tuple[int, ...]] = [(entry.batch, *task.input_shape)]
    given: list[tuple[int, ...]] = [(entry.batch, len(pack.labels))]
    if network is not None:
        state = list(state_shapes(pack).values())
        taken = [(1, network.stride, task.frontend.mels), *state]
        given = [(1, 1, network.size), *state]
    places = [*model.inputs, *model.outputs]
    inside = len(model.inputs) == len(taken) and all(0 <= p < len(model.tensors) for p in places)
    found = [model.tensors[place] for place in places] if inside else []
    if [tensor.shape for tensor in found] != [*taken, *given] or any(tensor.kind != 0 for tensor in found):
        raise PackError(f"The model {entry.file} does not take or give what the pack's manifest says.")


def state_shapes(pack: Pack) -> dict[str, tuple[int, ...]]:
    """What the step of a front-end's network remembers, by name, as a `.tflite` of it has that: with channels last."""
    state = pack.network_graph(FRONTENDS[1]).state
    return {name: tuple(state[name][axis] for axis in HELD) for name in sorted(state)}


def _check_map(model: FileModel, pack: Pack, entry: Tflite) -> None:
    """Each tensor of the pack is the whole content of a buffer, and its scales the whole scales of a tensor."""
    shapes = {spec.name: spec.shape for spec in tensors_of(pack, entry).specs}
    contents = set(model.buffers)
    scales = {(tensor.buffer, tensor.scales) for tensor in model.tensors}
    for buffer in entry.buffers:
        shape = shapes[buffer.tensor]
        width = 4 if buffer.scale is None else 1
        content = Vector(buffer.offset, width * math.prod(shape))
        sound = content in contents
        if sound and buffer.scale is not None:
            sound = (model.buffers.index(content), Vector(buffer.scale, shape[0])) in scales
        if not sound:
            raise PackError(f"The map of {entry.file} puts {buffer.tensor} where the file has no such tensor.")
