"""From a round's counted updates to the next model: read, apply the rule, apply the server's optimiser, report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from auricle.tensors import Flat, TensorTable, decode
from auricle_cloud.cohort import Aggregate, Cohort, FloatArray, layers_of
from auricle_cloud.compute.matrix import NumpyMatrix, Opener
from auricle_cloud.rules import Rule
from auricle_cloud.server_optimizer import OptimizerSettings, OptimizerState, first_state, step
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.update_records import staleness_weight

DIVERGED = "the server optimizer's step is not finite: the model is unchanged; lower its learning rate"


@dataclass(frozen=True)
class NextModel:
    """What a round made."""

    weights: Flat
    optimizer: OptimizerState | None
    aggregate: Aggregate


def cohort_of(
    table: TensorTable, start: Flat, counted: Sequence[Mapping[str, Any]], blobs: BlobStore,
    base_of: Callable[[int], Flat] | None = None, opener: Opener = NumpyMatrix,
) -> Cohort:  # fmt: skip
    """Read a round's updates as arrays.

    Parameters
    ----------
    table
        Tensor table of the plug-in; its layer groups are those of the rule.
    start
        (P,) the model that the round's model follows.
    counted
        Rows of the counted updates: device, round, body, codec, samples, loss, staleness.
    blobs
        Where their bodies lie.
    base_of
        Of asynchronous rounds: the model (P,) that the devices invited to a round started from. An update then stands
        for w^t + (w_k - base_k) / sqrt(1 + staleness), FedBuff's weighted difference.
    opener
        What rules compute with, see `auricle_cloud.compute.accelerator`.
    """

    def weights(row: Mapping[str, Any]) -> Flat:
        sent = decode(blobs.get(row["body"]), table.size, row["codec"])
        if base_of is None:
            return sent
        moved = (sent.astype(np.float64) - base_of(row["round"])) * staleness_weight(row["staleness"])
        return np.asarray(start + moved, np.float32)

    matrix = np.empty((len(counted), table.size), np.float32)
    for place, row in enumerate(counted):
        matrix[place] = weights(row)
    return Cohort.build(
        ids=_clients(counted),
        weights=matrix,
        samples=[row["samples"] for row in counted],
        losses=[np.nan if row["loss"] is None else row["loss"] for row in counted],
        start=start,
        layers=layers_of((s.name, s.size, s.layer) for s in table.specs),
        opener=opener,
    )


def _clients(counted: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the updates: the devices', with the round where an asynchronous buffer holds several of one."""
    often = Counter(row["device"] for row in counted)
    return [f"{row['device']}@{row['round']}" if often[row["device"]] > 1 else row["device"] for row in counted]


def next_model(cohort: Cohort, rule: Rule, server: OptimizerSettings, state: OptimizerState | None) -> NextModel:
    """Aggregate a cohort and let the model follow.

    Parameters
    ----------
    cohort
        The round's updates, in device order.
    rule, server
        How to average, and how the model follows the average.
    state
        The server optimiser's state; None before its first step.
    """
    aggregate = rule(cohort)
    if not aggregate.kept.any():
        return NextModel(np.asarray(aggregate.weights, np.float32), state, aggregate)
    return follow(cohort.start, aggregate, server, state)


def follow(
    start: FloatArray, aggregate: Aggregate, server: OptimizerSettings, state: OptimizerState | None
) -> NextModel:
    """Let the model go from w^t towards an aggregate; a step that is not finite keeps model and state, with a flag.

    Parameters
    ----------
    start
        (P,) w^t.
    aggregate
        What the rule made.
    server, state
        As in `next_model`.
    """
    if server.kind == "none":
        return NextModel(np.asarray(aggregate.weights, np.float32), state, aggregate)
    before = np.asarray(start, np.float32)
    with np.errstate(over="ignore"):
        moved, new = step(state or first_state(before.size, server), before, aggregate.weights, server)
    if not np.isfinite(new).all():
        return NextModel(before.copy(), state, replace(aggregate, flag=DIVERGED))
    return NextModel(np.asarray(new, np.float32), moved, aggregate)
