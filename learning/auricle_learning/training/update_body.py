"""The body of an update as the plan's codec has it, and what the codec leaves out of it, which the next one gets."""

from __future__ import annotations

import numpy as np

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat, TensorTable
from auricle.wire.update_codec import MOVES, decode_update, encode_update
from auricle.wire.vector_headers import VectorHeader
from auricle.wire.vectors import append_vectors
from auricle_learning.training.train import RoundResult


def update_body(
    result: RoundResult, received: Flat, plan: Plan, table: TensorTable, unsent: Flat | None
) -> tuple[bytes, tuple[VectorHeader, ...], Flat | None]:
    """Make what travels of a round, its vectors after the weights.

    Of `int8` and `top-k` what was not sent before goes along, and what is not sent now is left over: error feedback
    (Seide et al. 2014, https://doi.org/10.21437/Interspeech.2014-274; Karimireddy et al. 2019,
    https://arxiv.org/abs/1901.09847, Algorithm 2), e <- (w_k - w^t + e) - Q(w_k - w^t + e) with Q the codec, zeros
    before the first update. So all that was sent and e together are all that was trained, but for rounding e to
    float32.

    Parameters
    ----------
    result
        Of the round, as it may leave the device.
    received
        (P,) w^t.
    plan
        The round's: its codec.
    table
        Of the plug-in.
    unsent
        (P,) what earlier updates left over; None, or another length, as after another model: nothing.

    Returns
    -------
    bytes
        The body.
    tuple of VectorHeader
        What of it are vectors.
    array (P,) or None
        What is left over now, float32; None where the codec sends everything.

    Raises
    ------
    WireError
        A weight does not fit the codec, or a number of a vector is not finite.
    """
    wanted, rest = result.plugin, None
    if plan.codec in MOVES and unsent is not None and unsent.shape == (table.size,):
        wanted = wanted + unsent
    block = encode_update(wanted, received, table, plan.codec)
    if plan.codec in MOVES:
        rest = (wanted.astype(np.float64) - decode_update(block, received, table, plan.codec)).astype(np.float32)
    return *append_vectors(block, result.vectors), rest
