"""The body of an update as the plan's codec has it, and what rounding took away from it, which the next one gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat, TensorTable
from auricle.wire.update_codec import INT8, decode_update, encode_update
from auricle.wire.vector_headers import VectorHeader
from auricle.wire.vectors import append_vectors
from auricle_learning.training.train import RoundResult

UNSENT = "unsent"
"""Name of what rounding took away from the updates so far."""


def update_body(
    result: RoundResult, received: Flat, plan: Plan, table: TensorTable, variates: Mapping[str, Flat]
) -> tuple[bytes, tuple[VectorHeader, ...], RoundResult]:
    """Make what travels of a round, its vectors after the weights.

    In `int8` what was not sent before goes along, and what is not sent now is kept.

    That is error feedback: e <- (w_k - w^t + e) - Q(w_k - w^t + e), zeros before the first update, with Q the codec.

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
    variates
        What the device kept before the round.

    Returns
    -------
    bytes
        The body.
    tuple of VectorHeader
        What of it are vectors.
    RoundResult
        With what the device keeps now.

    Raises
    ------
    WireError
        A weight does not fit the codec, or a number of a vector is not finite.
    """
    block, kept = _weights(result, received, plan, table, variates)
    return *append_vectors(block, result.vectors), kept


def _weights(
    result: RoundResult, received: Flat, plan: Plan, table: TensorTable, variates: Mapping[str, Flat]
) -> tuple[bytes, RoundResult]:
    if plan.codec != INT8:
        return encode_update(result.plugin, received, table, plan.codec), result
    before = variates.get(UNSENT)
    wanted = result.plugin if before is None or before.shape != (table.size,) else result.plugin + before
    body = encode_update(wanted, received, table, INT8)
    unsent = (wanted.astype(np.float64) - decode_update(body, received, table, INT8)).astype(np.float32)
    local = replace(result.local, variates={**result.local.variates, UNSENT: unsent})
    return body, replace(result, local=local)
