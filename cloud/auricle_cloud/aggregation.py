"""From a round's counted updates to the next model: read, apply the rule, apply the server's optimiser, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from auricle.tensors import Flat, TensorTable, decode
from auricle_cloud.blobs import Blobs
from auricle_cloud.cohort import Aggregate, Cohort, layers_of
from auricle_cloud.rules import Rule
from auricle_cloud.server_optimizer import OptimizerSettings, OptimizerState, first_state, step

DIVERGED = "the server optimizer's step is not finite: the model is unchanged; lower its learning rate"


@dataclass(frozen=True)
class NextModel:
    """What a round made."""

    weights: Flat
    optimizer: OptimizerState | None
    aggregate: Aggregate


def next_model(
    table: TensorTable, start: Flat, counted: Sequence[Mapping[str, Any]], blobs: Blobs, rule: Rule,
    server: OptimizerSettings, state: OptimizerState | None,
) -> NextModel:  # fmt: skip
    """Aggregate a round's updates in device order.

    Parameters
    ----------
    table
        Tensor table of the plug-in; its layer groups are those of the rule.
    start
        (P,) the model the round began with.
    counted
        Rows of the counted updates: device, body, codec, samples, loss.
    blobs
        Where their bodies lie.
    rule, server
        How to average, and how the model follows the average.
    state
        The server optimiser's state; None before its first step.
    """
    cohort = Cohort.build(
        ids=[row["device"] for row in counted],
        weights=[decode(blobs.get(row["body"]), table.size, row["codec"]) for row in counted],
        samples=[row["samples"] for row in counted],
        losses=[np.nan if row["loss"] is None else row["loss"] for row in counted],
        start=start,
        layers=layers_of((s.name, s.size, s.layer) for s in table.specs),
    )
    aggregate = rule(cohort)
    weights = np.asarray(aggregate.weights, np.float32)
    if server.kind == "none" or not aggregate.kept.any():
        return NextModel(weights, state, aggregate)
    with np.errstate(over="ignore"):
        moved, new = step(state or first_state(table.size, server), start, weights, server)
    if not np.isfinite(new).all():
        return NextModel(start, state, replace(aggregate, flag=DIVERGED))
    return NextModel(np.asarray(new, np.float32), moved, aggregate)
