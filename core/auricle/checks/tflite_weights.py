"""Replacing the weights inside a `.tflite` of a pack: bytes are copied to where the manifest says, no converter.

A file holds every tensor as the pack orders it, or with its axes permuted as the map says. An int8 file holds most of
them as q with float32 scales s, one for each first-dimension slice of the pack's tensor: w = q s, s = max |w| / 127,
q = round(w / s) (symmetric, per channel).
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import PackError
from auricle.packs.frontend import Network
from auricle.packs.manifest import Buffer, Tflite
from auricle.packs.pack import Pack
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import Flat, Tensors

LEVELS = 127
"""The largest number of an int8 weight; -128 is not used."""
SMALLEST_SLICE = 8
"""Fewest numbers that share a scale: below, a scale costs as much as it saves."""

Int8 = NDArray[np.int8]


def is_quantised(spec: TensorSpec) -> bool:
    """Whether an int8 file keeps this tensor as int8: matrices and kernels, not biases, norms or tiny kernels."""
    return len(spec.shape) > 1 and spec.size // spec.shape[0] >= SMALLEST_SLICE


def quantise(tensor: NDArray[np.float32]) -> tuple[Int8, NDArray[np.float32]]:
    """Symmetric int8 numbers of a tensor (C, ...) and their scales (C,), one for each first-dimension slice.

    A slice of zeros has scale 1. The error of a weight is at most half a scale.
    """
    rows = tensor.reshape(len(tensor), -1)
    largest = np.abs(rows).max(axis=1)
    scales = np.where(largest > 0, largest / np.float32(LEVELS), np.float32(1)).astype(np.float32)
    scales = np.maximum(scales, np.finfo(np.float32).tiny)
    steps = np.clip(np.rint(rows / scales[:, None]), -LEVELS, LEVELS)
    return steps.astype(np.int8).reshape(tensor.shape), scales


def network_of(pack: Pack, entry: Tflite) -> Network | None:
    """The network of the pack's own front-end, where that is what a `.tflite` runs."""
    network = pack.manifest.task.frontend.network
    return None if network is UNSET or entry.model != network.name or entry.model in pack.tables else network


def tensors_of(pack: Pack, entry: Tflite) -> Tensors:
    """The tensors that are put into a `.tflite`: those of its model, or of the front-end's network."""
    network = network_of(pack, entry)
    return pack.table(entry.model) if network is None else network_table(network)


def network_table(network: Network) -> Tensors:
    """The tensors of a front-end's network."""
    return Tensors([TensorSpec(tensor.name, tensor.shape, tensor.name, 0.0) for tensor in network.tensors])


def with_weights(pack: Pack, entry: Tflite, flat: Flat) -> bytes:
    """A pack's `.tflite` with other weights.

    Parameters
    ----------
    pack
        The pack that carries the file.
    entry
        Which of its `.tflite` files.
    flat
        The model's weights (P,) float32, in the order of its tensor table.

    Returns
    -------
    bytes
        The file, every tensor of the model replaced.

    Raises
    ------
    PackError
        The manifest's map does not cover the model's tensors once each inside the file, or a weight is not finite.
    """
    table = tensors_of(pack, entry)
    if flat.shape != (table.size,) or not np.isfinite(flat).all():
        raise PackError(f"The weights for {entry.file} are not {table.size} finite numbers.")
    check_buffers(pack, entry)
    content = bytearray(pack.files[entry.file])
    specs = {spec.name: spec for spec in table.specs}
    for buffer in entry.buffers:
        tensor = np.ascontiguousarray(table.tensor(flat, specs[buffer.tensor].name), "<f4")
        if buffer.scale is None:
            _put(content, buffer.offset, tensor.transpose(_axes(buffer, tensor.ndim)).tobytes())
            continue
        steps, scales = quantise(tensor)
        _put(content, buffer.offset, steps.transpose(_axes(buffer, tensor.ndim)).tobytes())
        _put(content, buffer.scale, scales.astype("<f4").tobytes())
    return bytes(content)


def check_buffers(pack: Pack, entry: Tflite) -> None:
    """Whether a `.tflite` entry's map is sound: each tensor once, inside the file, none over another.

    Raises
    ------
    PackError
        It is not; the sentence names the file and the tensor.
    """
    table, content = tensors_of(pack, entry), pack.files.get(entry.file)
    if content is None:
        raise PackError(f"The pack {pack.manifest.name} lacks its file {entry.file}.")
    named = [buffer.tensor for buffer in entry.buffers]
    if sorted(named) != sorted(spec.name for spec in table.specs):
        raise PackError(f"The map of {entry.file} does not name each tensor of {entry.model} once: export it again.")
    shapes = {spec.name: spec.shape for spec in table.specs}
    for buffer in entry.buffers:
        if sorted(_axes(buffer, len(shapes[buffer.tensor]))) != list(range(len(shapes[buffer.tensor]))):
            raise PackError(f"The map of {entry.file} gives {buffer.tensor} axes that it does not have.")
    spans = sorted(span for buffer in entry.buffers for span in _spans(table, buffer))
    ends = [(0, 0, ""), *spans]
    for (_, end, _), (start, stop, tensor) in zip(ends, spans, strict=False):
        if start < max(end, 8) or stop > len(content):
            raise PackError(f"The map of {entry.file} puts {tensor} over something else or outside the file.")
    if entry.precision == "float32" and any(buffer.scale is not None for buffer in entry.buffers):
        raise PackError(f"The map of {entry.file} gives a scale in a float32 file.")


def _axes(buffer: Buffer, rank: int) -> tuple[int, ...]:
    return buffer.axes or tuple(range(rank))


def _spans(table: Tensors, buffer: Buffer) -> list[tuple[int, int, str]]:
    shape = next(spec.shape for spec in table.specs if spec.name == buffer.tensor)
    if buffer.scale is None:
        return [(buffer.offset, buffer.offset + 4 * math.prod(shape), buffer.tensor)]
    return [
        (buffer.offset, buffer.offset + math.prod(shape), buffer.tensor),
        (buffer.scale, buffer.scale + 4 * shape[0], buffer.tensor),
    ]


def _put(content: bytearray, offset: int, block: bytes) -> None:
    content[offset : offset + len(block)] = block
