"""Weights in the order an operator wants them, made of the pack's tensors as they lie in the file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.wire.tensor_specs import TensorSpec
from auricle_export.tflite.draft import Draft, Shape

Index = NDArray[np.int64]
MOST_PIECES = 64
"""Runs of neighbouring weights that are cut out and joined; more are gathered one by one."""


def weights(draft: Draft, index: Index) -> int:
    """A tensor (`index.shape`) of weights by their places in the flat vector, -1 for a zero.

    A whole tensor of the pack costs nothing, nor does one with its axes permuted, if it is always used so: the file
    then holds it so. Anything else is cut, joined or gathered from whole tensors at each inference.
    """
    whole = _whole(draft, index)
    if whole is not None:
        return whole
    order = _descending(index)
    sorted_axes = index.transpose(order)
    permuted = _permute(draft, index, order)
    if permuted is not None:
        return permuted
    moved = _whole(draft, sorted_axes)
    if moved is not None:
        return draft.transpose(moved, [order.index(axis) for axis in range(index.ndim)])
    if _consecutive(sorted_axes.ravel()):
        piece = draft.reshape(_join(draft, sorted_axes.ravel()), sorted_axes.shape)
        return draft.transpose(piece, [order.index(axis) for axis in range(index.ndim)])
    return draft.reshape(_join(draft, index.ravel()), index.shape)


def _whole(draft: Draft, index: Index) -> int | None:
    """The tensor that these weights are, in its own order; None when they are not exactly one."""
    spec = _spec_at(draft, int(index.flat[0]))
    if spec is None or spec.size != index.size or index.flat[0] != draft.table.offsets[spec.name].start:
        return None
    return draft.weight(spec, tuple(index.shape)) if _consecutive(index.ravel()) else None


def _permute(draft: Draft, index: Index, order: list[int]) -> int | None:
    """One tensor with its axes permuted; None when it is something else, or lies otherwise in the file."""
    flat = index.transpose(order).ravel()
    spec = _spec_at(draft, int(flat[0]))
    if spec is None or spec.size != len(flat) or not _consecutive(flat):
        return None
    real = [axis for axis in order if index.shape[axis] != 1]
    own = [axis for axis, size in enumerate(spec.shape) if size != 1]
    if [index.shape[axis] for axis in real] != [spec.shape[axis] for axis in own]:
        return None
    place = dict(zip(real, own, strict=True))
    ones = [axis for axis, size in enumerate(spec.shape) if size == 1]
    axes = (*ones, *(place[axis] for axis in range(index.ndim) if axis in place))
    channel = next((axis for axis, spec_axis in place.items() if spec_axis == 0), 0)
    return draft.permuted(spec, axes, tuple(index.shape), channel)


def _spec_at(draft: Draft, place: int) -> TensorSpec | None:
    spans = draft.table.offsets
    return next((s for s in draft.table.specs if spans[s.name].start <= place < spans[s.name].stop), None)


def _consecutive(flat: Index) -> bool:
    return bool(flat[0] >= 0 and (np.diff(flat) == 1).all())


def _descending(index: Index) -> list[int]:
    """Axes by falling stride, so that a permuted block of neighbours becomes one in order; size 1 axes first."""
    strides = []
    for axis in range(index.ndim):
        along = np.moveaxis(index, axis, 0).reshape(index.shape[axis], -1)[:, 0]
        strides.append(int(along[1] - along[0]) if len(along) > 1 else np.iinfo(np.int64).max)
    return sorted(range(index.ndim), key=lambda axis: (-strides[axis], axis))


def _piece(draft: Draft, run: Index) -> int:
    """Neighbouring weights of one tensor (or zeros), as a vector."""
    if run[0] < 0:
        return draft.constant(np.zeros(len(run), np.float32))
    spec = _spec_at(draft, int(run[0]))
    assert spec is not None
    vector = draft.reshape(draft.weight(spec, spec.shape), (spec.size,))
    start = int(run[0]) - draft.table.offsets[spec.name].start
    if len(run) == spec.size:
        return vector
    bounds = [draft.constant(np.array([n], np.int32)) for n in (start, len(run))]
    return draft.add("SLICE", [vector, *bounds], (len(run),), "SliceOptions")


def _join(draft: Draft, flat: Index) -> int:
    """Any weights as a vector: runs of neighbours side by side, or gathered where there are too many runs."""
    runs = _runs(draft, flat)
    if len(runs) <= MOST_PIECES:
        pieces = [_piece(draft, run) for run in runs]
        return _concat(draft, pieces, (len(flat),))
    used = sorted({s.name for run in runs if (s := _spec_at(draft, int(run[0]))) is not None})
    vectors, starts, length = [draft.constant(np.zeros(1, np.float32))], np.full(draft.table.size + 1, 0), 1
    for name in used:
        span = draft.table.offsets[name]
        vectors.append(_piece(draft, np.arange(span.start, span.stop)))
        starts[span] = np.arange(length, length + span.stop - span.start)
        length += span.stop - span.start
    source = _concat(draft, vectors, (length,))
    where = draft.constant(starts[flat].astype(np.int32))
    return draft.add("GATHER", [source, where], (len(flat),), "GatherOptions", Axis=0)


def _concat(draft: Draft, pieces: list[int], shape: Shape) -> int:
    return pieces[0] if len(pieces) == 1 else draft.add("CONCATENATION", pieces, shape, "ConcatenationOptions", Axis=0)


def _runs(draft: Draft, flat: Index) -> list[Index]:
    """Cut a vector of places into runs of neighbours that stay inside one tensor, and runs of zeros."""
    starts = [span.start for span in draft.table.offsets.values()]
    ahead = flat[1:]
    together = ((np.diff(flat) == 1) & ~np.isin(ahead, starts) & (flat[:-1] >= 0)) | ((ahead < 0) & (flat[:-1] < 0))
    return np.split(flat, np.flatnonzero(~together) + 1)
