"""How an update travels: raw numbers, or what moved: all of it in eight bits, or the larger half of it in four.

`int8` sends w_k - w^t: for each tensor in the table's order its scale, float32, and then all values in [-127, 127] in
the same order. A value stands for itself times its tensor's scale, which is the largest move of that tensor over 127.
A quarter of float32's bytes travels.

`top-k` sends the k = ceil(P / 2) largest moves of the model (Lin et al. 2018, https://arxiv.org/abs/1712.01887): the
scales, the largest move of a tensor over 7, a bit for each weight that says whether it is sent, and the values that
are, in [-7, 7], two in a byte; bits and values in the table's order, the first one lowest. Under a tenth of float32's
bytes travels. With half of the weights sent, no list of places is shorter than a bit a weight. Both codecs have one
length for a table.

What was taken away is kept by the device and added to its next update: error feedback, Seide et al. 2014
(https://doi.org/10.21437/Interspeech.2014-274), Karimireddy et al. 2019 (https://arxiv.org/abs/1901.09847). It makes up
for rounding to the nearest, where QSGD (Alistarh et al. 2017, https://arxiv.org/abs/1610.02132) draws at random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.errors import WireError
from auricle.wire.tensors import CODECS, Flat, TensorTable, decode, encode

INT8 = "int8"
TOP_K = "top-k"
MOVES = (INT8, TOP_K)
"""Codecs that send what moved, in part: a device keeps the rest, and nobody reads them without the model before."""
UPDATE_CODECS = (*CODECS, *MOVES)
"""What a plan may ask for."""
_LARGEST = {INT8: 127, TOP_K: 7}
"""Value of a tensor's largest move."""
_SCALE = np.dtype("<f4")


def length_of(table: TensorTable, codec: str) -> int:
    """Bytes of an update's body.

    Raises
    ------
    WireError
        The codec is unknown.
    """
    scales = len(table.specs) * _SCALE.itemsize
    if codec == INT8:
        return scales + table.size
    if codec == TOP_K:
        return scales + _pieces(table.size, 8) + _pieces(values_sent(table), 2)
    if codec not in CODECS:
        raise WireError(f'No codec "{codec}" for updates; there is: {", ".join(sorted(UPDATE_CODECS))}.')
    return table.size * CODECS[codec].itemsize


def values_sent(table: TensorTable) -> int:
    """How many weights `TOP_K` sends, k."""
    return _pieces(table.size, 2)


def encode_update(trained: Flat, received: Flat, table: TensorTable, codec: str) -> bytes:
    """Make the body that travels.

    Parameters
    ----------
    trained, received
        (P,) w_k and w^t.
    table
        Of the plug-in.
    codec
        One of `UPDATE_CODECS`.

    Raises
    ------
    WireError
        The codec is unknown, or a value is not finite or does not fit.
    """
    if codec not in MOVES:
        return encode(trained, codec)
    moved = trained.astype(np.float64) - received
    if not np.isfinite(moved).all():
        raise WireError(f"A weight is not finite or does not fit {codec}.")
    if codec == INT8:
        scales, values = _quantise(moved, table, codec)
        return scales.tobytes() + values.tobytes()
    sent = largest(moved, values_sent(table))
    scales, values = _quantise(np.where(sent, moved, 0.0), table, codec)
    return scales.tobytes() + np.packbits(sent, bitorder="little").tobytes() + _pack_pairs(values[sent])


def largest(moved: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """Which `count` values of (P,) are the largest by size; of equal ones the first."""
    size = np.abs(moved)
    least = np.partition(size, size.size - count)[size.size - count]
    chosen: NDArray[np.bool_] = size > least
    chosen[np.flatnonzero(size == least)[: count - np.count_nonzero(chosen)]] = True
    return chosen


def decode_update(block: bytes, base: Flat | None, table: TensorTable, codec: str, out: Flat | None = None) -> Flat:
    """Read a body into the weights (P,) that it stands for.

    Parameters
    ----------
    base
        (P,) the model that the device started from; not needed for raw numbers.
    block, table, codec
        As of `encode_update`.
    out
        (P,) where the weights go to, also those that are refused then.

    Raises
    ------
    WireError
        The codec is unknown, the length is not due, a number is not finite or none that `encode_update` makes.
    """
    if codec not in MOVES:
        return decode(block, table.size, codec, out)
    if base is None:
        raise WireError(f"An update in {codec} can only be read beside the model that it started from.")
    with np.errstate(over="ignore"):
        found: Flat = (base + _read_moves(block, table, codec)).astype(np.float32)
    if not np.isfinite(found).all():
        raise WireError("A tensor block holds numbers that are not finite.")
    if out is None:
        return found
    out[:] = found
    return out


def _quantise(
    moved: NDArray[np.float64], table: TensorTable, codec: str
) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """A scale for each tensor, and values (P,) that stand for the moves (P,) over it."""
    most, places = _LARGEST[codec], table.offsets.values()
    scales = np.array([np.abs(moved[at]).max(initial=0.0) / most for at in places]).astype(_SCALE)
    values = np.zeros(table.size, np.int8)
    for scale, at in zip(scales, places, strict=True):
        if scale:
            values[at] = np.clip(np.rint(moved[at] / scale), -most, most)
    return scales, values


def _read_moves(block: bytes, table: TensorTable, codec: str) -> NDArray[np.float64]:
    expected = length_of(table, codec)
    if len(block) != expected:
        raise WireError(f"A tensor block has {len(block)} bytes where {expected} are due.")
    head = len(table.specs) * _SCALE.itemsize
    scales = np.frombuffer(block[:head], _SCALE)
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise WireError("A scale of a tensor is not a finite number of at least 0.")
    moved = np.zeros(table.size)
    if codec == INT8:
        moved[:] = values = np.frombuffer(block[head:], np.int8)
    else:
        bits = _pieces(table.size, 8)
        values = _read_pairs(block[head + bits :], values_sent(table))
        moved[_read_places(block[head : head + bits], table)] = values
    if (values < -_LARGEST[codec]).any():
        raise WireError(f"A value is below -{_LARGEST[codec]}.")
    for scale, at in zip(scales, table.offsets.values(), strict=True):
        moved[at] *= scale
    return moved


def _read_places(block: bytes, table: TensorTable) -> NDArray[np.bool_]:
    """Which weights are sent (P,): exactly as many as are due, and none beyond the last."""
    bits = np.unpackbits(np.frombuffer(block, np.uint8), bitorder="little").astype(np.bool_)
    if bits[table.size :].any():
        raise WireError("A value is sent for a weight beyond the last.")
    count = np.count_nonzero(bits)
    if count != values_sent(table):
        raise WireError(f"{count} weights are sent where {values_sent(table)} are due.")
    return bits[: table.size]


def _pack_pairs(values: NDArray[np.int8]) -> bytes:
    """Values in [-8, 7], two in a byte, the first one lowest; 0 beside the last where their number is odd."""
    nibbles = np.zeros(2 * _pieces(values.size, 2), np.uint8)
    nibbles[: values.size] = values.view(np.uint8) & 0x0F
    return (nibbles[::2] | nibbles[1::2] << 4).tobytes()


def _read_pairs(block: bytes, count: int) -> NDArray[np.int8]:
    pairs = np.frombuffer(block, np.uint8)
    values = np.stack([pairs << 4, pairs & 0xF0], axis=1).reshape(-1).view(np.int8) >> 4
    if values[count:].any():
        raise WireError("Something stands beside the last value.")
    return values[:count]


def _pieces(count: int, size: int) -> int:
    """How many pieces of a size so many make, the last one perhaps not full."""
    return -(-count // size)
