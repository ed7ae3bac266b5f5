"""Trained weights that a pack starts from: safetensors, read strictly and without the package of that name.

The format (https://github.com/huggingface/safetensors#format): a little-endian uint64 N, N bytes of JSON that gives
each tensor's dtype, shape and span, then the numbers one after the other without gaps.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NoReturn

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import PackError
from auricle.packs.pack import Pack
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.tensor_specs import Dim
from auricle.wire.tensors import Flat, TensorTable

LARGEST_HEADER = 1 << 20
METADATA = "__metadata__"

Dtype = Literal["F16", "F32"]
DTYPES: dict[str, np.dtype[Any]] = {"F16": np.dtype("<f2"), "F32": np.dtype("<f4")}


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor in the header."""

    dtype: Dtype
    shape: Annotated[tuple[Dim, ...], msgspec.Meta(max_length=8)]
    data_offsets: tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=0)]]


_Header = msgspec.json.Decoder(dict[str, msgspec.Raw])
_entry = msgspec.json.Decoder(_Entry)
_metadata = msgspec.json.Decoder(dict[str, str])


def start_weights(pack: Pack, model: str) -> Flat:
    """Trained weights of a model, (P,) float32 in the order of its tensor table.

    Parameters
    ----------
    pack
        The pack.
    model
        One of its models.

    Raises
    ------
    PackError
        The pack has none for this model, or its file has not exactly the model's tensors, in float16 or float32, all
        finite.
    """
    table, start = pack.table(model), pack.manifest.start.get(model)
    if start is None:
        raise PackError(f"The pack {pack.manifest.name} has no trained weights for {model}: start from scratch.")
    return read_start(pack.files[start.file], table, f"The weights {start.file} of the pack {pack.manifest.name}")


def read_start(data: bytes, table: TensorTable, where: str) -> Flat:
    """Read a safetensors file that must hold exactly a table's tensors; (P,) float32.

    Raises
    ------
    PackError
        It does not; the sentence begins with `where`.
    """
    flat: Flat = np.empty(table.size, np.float32)
    for name, numbers in read_tensors(data, {spec.name: spec.shape for spec in table.specs}, where).items():
        flat[table.offsets[name]] = numbers.ravel()
    return flat


def read_tensors(data: bytes, shapes: Mapping[str, tuple[int, ...]], where: str) -> dict[str, NDArray[np.float32]]:
    """The tensors of a safetensors file that must hold exactly those of these shapes, by name, as float32.

    Raises
    ------
    PackError
        It does not; the sentence begins with `where`.
    """
    entries, body = _header(data, where)
    if set(entries) != set(shapes):
        _refuse(where, f"it does not hold the tensors of its model, {min(set(entries) ^ set(shapes))[:80]!r} for one")
    _refuse_gaps(entries, len(data) - body, where)
    tensors = {}
    for name, shape in shapes.items():
        entry = entries[name]
        if entry.shape != shape:
            _refuse(where, f"its tensor {name!r} is {entry.shape} where the model has {shape}")
        numbers: NDArray[Any] = np.frombuffer(data, DTYPES[entry.dtype], math.prod(shape), body + entry.data_offsets[0])
        if not np.isfinite(numbers).all():
            _refuse(where, f"its tensor {name!r} holds numbers that are not finite")
        tensors[name] = numbers.reshape(shape).astype(np.float32)
    return tensors


def start_file(table: TensorTable, flat: Flat, dtype: Dtype = "F16") -> bytes:
    """The safetensors file of a model's weights (P,): the same bytes for the same weights.

    Raises
    ------
    PackError
        A weight is not finite, or too large for float16.
    """
    if flat.shape != (table.size,):
        raise PackError(f"The weights are not {table.size} numbers.")
    return tensors_file({spec.name: table.tensor(flat, spec.name) for spec in table.specs}, dtype)


def tensors_file(tensors: Mapping[str, NDArray[np.float32]], dtype: Dtype = "F16") -> bytes:
    """The safetensors file of tensors by name, in their order.

    Raises
    ------
    PackError
        A number is not finite, or too large for float16.
    """
    entries, at = dict[str, _Entry](), 0
    with np.errstate(over="ignore"):
        kept = {name: np.asarray(tensor, DTYPES[dtype]) for name, tensor in tensors.items()}
    for name, numbers in kept.items():
        if not np.isfinite(numbers).all():
            raise PackError(f"The weights are not {numbers.size} numbers that are finite in {dtype}.")
        entries[name] = _Entry(dtype, numbers.shape, (at, at + numbers.nbytes))
        at += numbers.nbytes
    header = msgspec.json.encode(entries)
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + b"".join(map(np.ndarray.tobytes, kept.values()))


def network_tensors(pack: Pack) -> dict[str, NDArray[np.float32]]:
    """The tensors of the network of a pack's front-end by name; none where it has no network.

    Raises
    ------
    PackError
        Its file has not exactly these tensors, in float16 or float32, all finite.
    """
    network = pack.manifest.task.frontend.network
    if network is UNSET:
        return {}
    where = f"The network {network.file} of the pack {pack.manifest.name}"
    return read_tensors(pack.files[network.file], network.shapes, where)


def _header(data: bytes, where: str) -> tuple[dict[str, _Entry], int]:
    """Tensors by name, and the byte at which their numbers begin."""
    size = struct.unpack_from("<Q", data)[0] if len(data) >= 8 else 0
    if not 2 <= size <= min(LARGEST_HEADER, len(data) - 8):
        _refuse(where, "it is not a safetensors file, or cut short")
    try:
        raw = _Header.decode(data[8 : 8 + size])
        if METADATA in raw:
            _metadata.decode(raw.pop(METADATA))
        entries = {name: _entry.decode(value) for name, value in raw.items()}
    except UNDECODABLE as error:
        _refuse(where, f"its header is not valid, {error}")
    return entries, 8 + size


def _refuse_gaps(entries: dict[str, _Entry], there: int, where: str) -> None:
    """Spans follow each other from the first byte to the last, each as long as its shape says."""
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        start, end = entry.data_offsets
        if start != at or end - start != math.prod(entry.shape) * DTYPES[entry.dtype].itemsize:
            _refuse(where, f"its tensor {name[:80]!r} claims bytes {start} to {end}, which are not its own")
        at = end
    if at != there:
        _refuse(where, f"its tensors claim {at} bytes and it holds {there}")


def _refuse(where: str, reason: str) -> NoReturn:
    raise PackError(f"{where} is refused: {reason}.")
