"""The updates that a round counts, read as a cohort: one row an update, or one row a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle.wire.tensors import Flat, TensorTable
from auricle.wire.update_codec import decode_update, length_of
from auricle.wire.vectors import split_vectors
from auricle_cloud.rounds.arrived_weights import ArrivedWeights
from auricle_cloud.states.verdict import staleness_weight
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.rows import UpdateRow
from auricle_learning.aggregation.cohort import Cohort, Float64Array
from auricle_learning.aggregation.compute.matrix import NumpyMatrix, Opener
from auricle_learning.aggregation.extras import NOTHING, Extras
from auricle_learning.aggregation.inputs import build_cohort, put_onto
from auricle_learning.aggregation.rules.average import sample_share


def cohort_of(
    table: TensorTable,
    start: Flat,
    counted: Sequence[UpdateRow],
    blobs: BlobStore,
    base_of: Callable[[int], Flat] | None = None,
    opener: Opener = NumpyMatrix,
    registered: Mapping[str, int] | None = None,
    extras: Extras = NOTHING,
    arrived: ArrivedWeights | None = None,
) -> Cohort:
    """Read a round's updates as arrays.

    Parameters
    ----------
    table
        Tensor table of the plug-in; its layer groups are those of the rule.
    start
        (P,) the model that the round's model follows.
    counted
        The counted updates.
    blobs
        Where their bodies lie.
    base_of
        Of asynchronous rounds: the model (P,) that the devices invited to a round started from. An update then stands
        for w^t + (w_k - base_k) / sqrt(1 + staleness), FedBuff's weighted difference.
    opener
        What rules compute with, see `auricle_learning.aggregation.compute.accelerator`.
    registered
        Clips that devices registered, by name.
    extras
        What the rule needs beyond this, its rows in the order of `counted`.
    arrived
        Has the weights of those that came since this process began: they are neither read nor checked again.
    """

    def base(place: int, row: UpdateRow) -> Flat:
        if extras.starts is not None:  # synchronous: each device began with a model of its own
            own: Flat = extras.starts[place].astype(np.float32)
            return own
        return start if base_of is None else base_of(row.round)

    as_sent = arrived if arrived is not None and base_of is None else ArrivedWeights(table.size)
    matrix, known = as_sent.matrix_of(counted)
    more: list[dict[str, Flat]] = [{}] * len(counted)
    for place, row in enumerate(counted):
        if known[place]:
            continue
        block, more[place] = split_vectors(blobs.get(row.body), length_of(table, row.codec), row.headers)
        began = base(place, row)
        sent = decode_update(block, began, table, row.codec)
        matrix[place] = sent if base_of is None else put_onto(start, began, sent, staleness_weight(row.staleness))
    return build_cohort(
        table,
        start,
        counted,
        matrix,
        more,
        ids=_clients(counted),
        registered=registered,
        extras=extras,
        opener=opener,
    )


def _clients(counted: Sequence[UpdateRow]) -> list[str]:
    """Names of the updates: the devices', with the round where an asynchronous buffer holds several of one."""
    often = Counter(row.device for row in counted)
    return [f"{row.device}@{row.round}" if often[row.device] > 1 else row.device for row in counted]


def by_device(cohort: Cohort) -> Cohort:
    """The same round with one row for each device; the same cohort where no device has two.

    A rule speaks of clients, and each has a vote, a distance and a share. A device that answered late invitations
    together would otherwise be as many clients as it has updates, and could fill a buffer alone.

    A device's row is the mean of its updates by samples, its samples are their sum, its loss is the mean by samples of
    those that are known, and what it registered counts once for each update. It has labels where one of them had.

    Parameters
    ----------
    cohort
        Its ids are device names, with `@` and the round where there are several of one, as `cohort_of` makes them.
    """
    names = [client.partition("@")[0] for client in cohort.ids]
    devices = sorted(set(names))
    if len(devices) == len(names):
        return cohort
    rows = [np.array([k for k, name in enumerate(names) if name == device]) for device in devices]
    weights = np.empty((len(devices), cohort.start.size), cohort.weights.dtype)
    for place, mine in enumerate(rows):
        share = sample_share(cohort.samples[mine], np.ones((mine.size, 1), np.bool_))[:, 0]
        weights[place] = share @ cohort.weights[mine].astype(np.float64)
    registered, labelled = cohort.registered, cohort.extras.labelled
    return replace(
        cohort,
        ids=tuple(devices),
        weights=weights,
        samples=np.array([cohort.samples[mine].sum() for mine in rows]),
        losses=np.array([_loss(cohort, mine) for mine in rows]),
        registered=None if registered is None else np.array([registered[mine].sum() for mine in rows]),
        extras=cohort.extras
        if labelled is None
        else replace(cohort.extras, labelled=np.array([labelled[mine].max() for mine in rows])),
    )


def _loss(cohort: Cohort, mine: NDArray[np.int_]) -> float:
    losses: Float64Array = cohort.losses[mine]
    known = ~np.isnan(losses)
    if not known.any():
        return float("nan")
    share = sample_share(cohort.samples[mine][known], np.ones((int(known.sum()), 1), np.bool_))[:, 0]
    return float(share @ losses[known])
