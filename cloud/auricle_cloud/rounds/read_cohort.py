"""The updates that a round counts, read as a cohort."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from auricle.wire.tensors import Flat, TensorTable, decode
from auricle_cloud.aggregation.cohort import Cohort, layers_of
from auricle_cloud.aggregation.compute.matrix import NumpyMatrix, Opener
from auricle_cloud.states.verdict import staleness_weight
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.rows import UpdateRow


def cohort_of(
    table: TensorTable,
    start: Flat,
    counted: Sequence[UpdateRow],
    blobs: BlobStore,
    base_of: Callable[[int], Flat] | None = None,
    opener: Opener = NumpyMatrix,
    registered: Mapping[str, int] | None = None,
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
        What rules compute with, see `auricle_cloud.aggregation.compute.accelerator`.
    registered
        Clips that devices registered, by name.
    """

    def weights(row: UpdateRow) -> Flat:
        sent = decode(blobs.get(row.body), table.size, row.codec)
        if base_of is None:
            return sent
        moved = (sent.astype(np.float64) - base_of(row.round)) * staleness_weight(row.staleness)
        return np.asarray(start + moved, np.float32)

    matrix = np.empty((len(counted), table.size), np.float32)
    for place, row in enumerate(counted):
        matrix[place] = weights(row)
    return Cohort.build(
        ids=_clients(counted),
        weights=matrix,
        samples=[row.samples for row in counted],
        losses=[np.nan if row.loss is None else row.loss for row in counted],
        start=start,
        layers=layers_of((s.name, s.size, s.layer) for s in table.specs),
        opener=opener,
        registered=None if registered is None else [registered.get(row.device, np.nan) for row in counted],
    )


def _clients(counted: Sequence[UpdateRow]) -> list[str]:
    """Names of the updates: the devices', with the round where an asynchronous buffer holds several of one."""
    often = Counter(row.device for row in counted)
    return [f"{row.device}@{row.round}" if often[row.device] > 1 else row.device for row in counted]
