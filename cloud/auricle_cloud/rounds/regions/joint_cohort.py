"""The updates of several regions as one cohort, and what a round made of them as a table for each region."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from auricle.errors import WireError
from auricle.wire.tensors import Flat
from auricle_cloud.link.region_messages import (
    JoinRound,
    Limited,
    RegionPart,
    UpdateSummary,
    read_numbers,
    write_numbers,
)
from auricle_learning.aggregation.cohort import Aggregate, Bounded, Cohort, Layer
from auricle_learning.aggregation.compute.distances import Float64Array, Rows
from auricle_learning.aggregation.extras import NOTHING, Extras
from auricle_learning.aggregation.matrix_parts import MatrixPart, MatrixParts

NOWHERE = np.float32(np.nan)
"""In place of weights: what would read one here, and not where it lies, makes no model."""


def summarise(cohort: Cohort) -> tuple[UpdateSummary, ...]:
    """What a region says of the updates (K,) of its own cohort."""
    steps, labelled, registered = cohort.extras.steps, cohort.extras.labelled, cohort.registered
    return tuple(
        UpdateSummary(
            device,
            float(cohort.samples[k]),
            _or_none(cohort.losses[k]),
            None if registered is None else _or_none(registered[k]),
            None if steps is None else float(steps[k]),
            None if labelled is None else float(labelled[k]),
        )
        for k, device in enumerate(cohort.ids)
    )


def joint_cohort(
    joins: Mapping[str, JoinRound],
    places: Sequence[MatrixPart],
    start: Flat,
    layers: tuple[Layer, ...],
    extras: Extras = NOTHING,
) -> tuple[list[Rows], Cohort]:
    """The updates of all regions as one cohort whose weights are elsewhere.

    Parameters
    ----------
    joins
        What regions say, by name: K updates in all.
    places
        What computes on the updates of each, in the order of `joins`.
    start, layers, extras
        Of the model: as of `Cohort`. Steps and labels are filled in from what the regions say.

    Returns
    -------
    list of (K_r,), Cohort
        Which rows are of which region, in its own order; and the cohort, whose ids are REGION/DEVICE.
    """
    summaries = sorted(
        ((f"{name}/{row.device}", place, row) for place, (name, join) in enumerate(joins.items()) for row in join.rows),
        key=lambda each: each[0],
    )
    rows = [
        np.array([k for k, each in enumerate(summaries) if each[1] == place], np.intp) for place in range(len(joins))
    ]
    updates = [row for _, _, row in summaries]
    steps, labelled = _column(row.steps for row in updates), _column(row.labelled for row in updates)
    cohort = Cohort(
        ids=tuple(name for name, _, _ in summaries),
        weights=np.broadcast_to(NOWHERE, (len(updates), start.size)),
        samples=np.array([row.samples for row in updates], np.float64),
        losses=_column(row.loss for row in updates),
        start=start,
        layers=layers,
        dropped=tuple(sorted(f"{name}/{device}" for name, join in joins.items() for device in join.dropped)),
        registered=_column(row.registered for row in updates),
        opener=lambda _: MatrixParts(places, rows),
        extras=replace(
            extras,
            steps=None if np.isnan(steps).any() else steps,
            labelled=None if np.isnan(labelled).any() else labelled,
        ),
    )
    return rows, cohort


def part_of(aggregate: Aggregate, rows: Rows) -> RegionPart:
    """What a round made of the updates of one region, whose rows (K_r,) these are."""
    prefix = aggregate.ids[rows[0]].partition("/")[0] + "/"
    deviation, pruned, score = aggregate.deviation, aggregate.pruned, aggregate.score
    bounded = (each for each in aggregate.bounded if each.device.startswith(prefix))
    return RegionPart(
        rows=rows.size,
        share=write_numbers(aggregate.share[rows]),
        kept=aggregate.kept[rows].tobytes(),
        deviation=None if deviation is None else write_numbers(deviation[rows]),
        pruned=None if pruned is None else np.ascontiguousarray(pruned[rows], np.int8).tobytes(),
        score=None if score is None else write_numbers(np.asarray(score, np.float64)[rows]),
        score_of=aggregate.score_of,
        bounded=tuple(
            Limited(each.device.removeprefix(prefix), each.what, each.said, each.counted) for each in bounded
        ),
        flag=aggregate.flag,
        warnings=aggregate.warnings,
    )


def aggregate_of(part: RegionPart, cohort: Cohort, weights: Flat) -> Aggregate:
    """What a joint round made of a region's cohort (K_r,), with the model (P,) of all; WireError where it does not."""
    shape = (len(cohort.ids), len(cohort.layers))
    if part.rows != shape[0] or len(part.kept) != shape[0] * shape[1]:
        raise WireError(f"The joint round tells of {part.rows} updates, and {shape[0]} are here.")
    if part.pruned is not None and len(part.pruned) != shape[0] * shape[1]:
        raise WireError("The joint round tells of other layers than there are here.")
    return Aggregate(
        weights=weights,
        ids=cohort.ids,
        layers=cohort.names,
        kept=np.frombuffer(part.kept, np.uint8).reshape(shape) != 0,
        share=read_numbers(part.share, *shape),
        deviation=None if part.deviation is None else read_numbers(part.deviation, *shape, finite=False),
        pruned=None if part.pruned is None else np.frombuffer(part.pruned, np.int8).reshape(shape),
        dropped=cohort.dropped,
        flag=part.flag,
        warnings=part.warnings,
        score=None if part.score is None else read_numbers(part.score, shape[0], finite=False),
        score_of=part.score_of,
        bounded=tuple(Bounded(each.device, each.what, each.said, each.counted) for each in part.bounded),
    )


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _column(values: Iterable[float | None]) -> Float64Array:
    return np.array([np.nan if value is None else value for value in values], np.float64)
