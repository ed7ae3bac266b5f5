"""What an update has to be in order to count: its header first, its body once that is whole."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import numpy as np

from auricle.errors import WireError
from auricle.wire.messages import Update
from auricle.wire.secure_sum.quantised import MASKED
from auricle.wire.tensors import Flat, TensorTable, digest
from auricle.wire.update_codec import MOVES, UPDATE_CODECS, decode_update, length_of
from auricle.wire.vectors import Declared, require_headers, require_values, split_vectors
from auricle_cloud.settings import Limits
from auricle_learning.native.halves import half_reader


def require_header(update: Update, table: TensorTable, limits: Limits, declared: Sequence[Declared] = ()) -> None:
    """Refuse by the signed header alone, before any memory is given to the body.

    Parameters
    ----------
    table
        Tensor table of the plug-in.
    limits
        What a device may claim.
    declared
        The vectors that may follow the weights.

    Raises
    ------
    WireError
        It is not one that could count.
    """
    if (update.codec == MASKED) != bool(update.sum):
        raise WireError("sum: masked words without a secure sum, or the other way round")
    if not update.sum and update.codec not in UPDATE_CODECS:
        raise WireError("codec: unknown")
    weights = 4 * table.size if update.sum else length_of(table, update.codec)
    beside = require_headers(update.vectors or (), () if update.sum else declared)
    if update.length - weights != beside:
        raise WireError(f"shape: not the plug-in's number of weights{' and its vectors' if beside else ''}")
    if not 1 <= update.samples <= limits.samples:
        raise WireError("samples: none, or more than a device can have")
    if update.unsupervised and update.unsupervised > update.samples:
        raise WireError("samples: more without labels than there are")
    if not 0 <= update.loss <= limits.loss:
        raise WireError("loss: not a finite number of at least 0")
    if update.part >= update.parts:
        raise WireError("part: beyond the last")


def require_body(
    update: Update,
    body: bytes,
    base: Flat | None,
    table: TensorTable,
    limits: Limits,
    declared: Sequence[Declared] = (),
    *,
    travelled: bool = True,
    out: Flat | None = None,
) -> Flat | None:
    """The weights (P,) that an update brings; None of a masked one, of which nobody can say anything.

    Parameters
    ----------
    base
        (P,) of the model that it started from, where that is at hand.
    table, limits, declared
        As of `require_header`.
    out
        (P,) where the weights go to, also those that are refused then.
    travelled
        Whether it came from somewhere: what was made in this run is the body that the header means.

    Raises
    ------
    WireError
        It is not the body that the header names, its weights cannot count, or a vector is not the one of its
        header, not finite, or none that the round's method can have.
    """
    if len(body) != update.length or (travelled and digest(body) != update.body):
        raise WireError("hash: the body is not the one the header names")
    if update.sum:
        return None
    try:
        if (
            base is None and update.codec in MOVES
        ):  # no round started from it: the ledger refuses it, whatever it brings
            base = np.zeros(table.size, np.float32)
        block, vectors = split_vectors(body, length_of(table, update.codec), update.vectors or ())
        weights, largest, moved = _read(update.codec, block, base, table, out)
        require_values(vectors, declared, limits.weight)
    except WireError as error:
        raise WireError(f"values: {error}") from error
    require_weights(weights, base, limits, largest, moved)
    return weights


def require_weights(
    weights: Flat, base: Flat | None, limits: Limits, largest: float | None = None, moved: float | None = None
) -> None:
    """Refuse weights that no update may have, and no model that is published.

    Parameters
    ----------
    weights
        (P,).
    base
        (P,) what they may not be too far from; None: anything.
    limits
        What an update may be.
    largest, moved
        Their largest by size, and how far they are from `base`; None: that is to be measured.

    Raises
    ------
    WireError
        One is beyond a limit, or not finite.
    """
    if largest is None:
        largest = float(np.abs(weights).max(initial=0.0))
    if not largest <= limits.weight:
        raise WireError("values: a weight no model learns")
    if base is not None and _distance(weights, base, limits.norm, moved) > limits.norm:
        raise WireError(f"norm: further from the round's model than {limits.norm:g}")


def _read(
    codec: str, block: bytes, base: Flat | None, table: TensorTable, out: Flat | None
) -> tuple[Flat, float, float | None]:
    """The weights (P,) of a block, the largest by size, and how far they moved; None: that is to be measured."""
    reader = half_reader() if codec == "float16" and len(block) == 2 * table.size else None
    if reader is None:
        weights = decode_update(block, base, table, codec, out)
        return weights, max(weights.max(initial=0.0), -weights.min(initial=0.0)), None
    weights = np.empty(table.size, np.float32) if out is None else out
    found = reader.read(block, weights, base)
    if found is None:
        raise WireError("A tensor block holds numbers that are not finite.")
    return weights, *found


class _Scratch(threading.local):
    """A thread's place for a model's numbers: a new one for each update would cost more than the sum over it."""

    def __init__(self) -> None:
        self._place = np.empty(0, np.float32)

    def like(self, numbers: Flat) -> Flat:
        if self._place.size != numbers.size:
            self._place = np.empty_like(numbers)
        return self._place


_scratch = _Scratch()


def _distance(weights: Flat, base: Flat, limit: float, rough: float | None) -> float:
    """||w - base||_2, exact where it is near the limit, and else to a thousandth, which may be known."""
    if rough is not None and abs(rough - limit) > 0.01 * limit:
        return rough
    moved = _scratch.like(base)
    np.subtract(weights, base, out=moved)
    # A sum of squares and no dot product, for which BLAS would wake a thread on every core.
    rough = math.sqrt(float(np.einsum("i,i->", moved, moved)))
    if abs(rough - limit) > 0.01 * limit:
        return rough
    return math.sqrt(float(np.square(moved, dtype=np.float64).sum()))
