"""How an update travels: raw numbers, or what moved in eight bits with one scale a tensor.

`int8` sends w_k - w^t: for each tensor in the table's order its scale, float32, and then all values in [-127, 127] in
the same order. A value stands for itself times its tensor's scale, which is the largest move of that tensor over 127.
A quarter of float32's bytes travels. What rounding took away is kept by the device and added to its next update:
error feedback, Seide et al. (https://doi.org/10.21437/Interspeech.2014-274), Karimireddy et al.
(https://arxiv.org/abs/1901.09847).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.errors import WireError
from auricle.wire.tensors import CODECS, Flat, TensorTable, decode, encode

INT8 = "int8"
UPDATE_CODECS = (*CODECS, INT8)
"""What a plan may ask for."""
_TOP = 127
_SCALE = np.dtype("<f4")


def length_of(table: TensorTable, codec: str) -> int:
    """Bytes of an update's body.

    Raises
    ------
    WireError
        The codec is unknown.
    """
    if codec == INT8:
        return len(table.specs) * _SCALE.itemsize + table.size
    if codec not in CODECS:
        raise WireError(f'No codec "{codec}" for updates; there is: {", ".join(sorted(UPDATE_CODECS))}.')
    return table.size * CODECS[codec].itemsize


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
    if codec != INT8:
        return encode(trained, codec)
    moved = trained.astype(np.float64) - received
    if not np.isfinite(moved).all():
        raise WireError(f"A weight is not finite or does not fit {codec}.")
    scales = np.array([np.abs(moved[at]).max(initial=0.0) / _TOP for at in table.offsets.values()]).astype(_SCALE)
    values = np.zeros(table.size, np.int8)
    for scale, at in zip(scales, table.offsets.values(), strict=True):
        if scale:
            values[at] = np.clip(np.rint(moved[at] / scale), -_TOP, _TOP)
    return scales.tobytes() + values.tobytes()


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
    if codec != INT8:
        return decode(block, table.size, codec, out)
    if base is None:
        raise WireError(f"An update in {codec} can only be read beside the model that it started from.")
    with np.errstate(over="ignore"):
        found: Flat = (base + _read_steps(block, table)).astype(np.float32)
    if not np.isfinite(found).all():
        raise WireError("A tensor block holds numbers that are not finite.")
    if out is None:
        return found
    out[:] = found
    return out


def _read_steps(block: bytes, table: TensorTable) -> NDArray[np.float64]:
    expected = length_of(table, INT8)
    if len(block) != expected:
        raise WireError(f"A tensor block has {len(block)} bytes where {expected} are due.")
    head = len(table.specs) * _SCALE.itemsize
    scales = np.frombuffer(block[:head], _SCALE)
    values = np.frombuffer(block[head:], np.int8)
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise WireError("A scale of a tensor is not a finite number of at least 0.")
    if (values < -_TOP).any():
        raise WireError(f"A value is below -{_TOP}.")
    moved = values.astype(np.float64)
    for scale, at in zip(scales, table.offsets.values(), strict=True):
        moved[at] *= scale
    return moved
