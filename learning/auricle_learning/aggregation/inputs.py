"""What a rule is given in a round: its updates as arrays, and what it may need beside them.

A round is put together here alone: a coordinator brings what its database has, the virtual engine what it remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from msgspec import UnsetType
from numpy.typing import ArrayLike, NDArray

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat, TensorTable
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.caps import total_of
from auricle_learning.aggregation.cohort import Cohort, Float64Array, layers_of
from auricle_learning.aggregation.compute.matrix import NumpyMatrix, Opener
from auricle_learning.aggregation.extras import (
    GRADIENTS,
    MAPS,
    NOTHING,
    Extras,
    Objective,
    PlannedSteps,
    RuleState,
)


class UpdateHeader(Protocol):
    """What an update says beside its weights, as a message or as a row of a database."""

    @property
    def device(self) -> str:
        """Who sent it."""

    @property
    def samples(self) -> int:
        """Clips that it was trained on."""

    @property
    def loss(self) -> float | None:
        """Inference loss of the received model; None or NaN: not said."""

    @property
    def steps(self) -> int:
        """Local steps."""

    @property
    def unsupervised(self) -> int | UnsetType | None:
        """Of the samples, those without a label; none where it is not said."""


@dataclass(frozen=True, eq=False)
class ServerInputs:
    """What a coordinator has beside the updates of a round; the two functions are called where a rule needs them."""

    number: int
    """Of the round."""
    registered: Callable[[], Sequence[float]]
    """Clips that each device of the fleet registered."""
    state: Callable[[], RuleState | None]
    """What the rule kept of the round before; None before its first."""
    objectives: Sequence[Objective] = ()
    """Of the coordinator's labelled clips, a batch each."""
    labelled: int = 0
    """Number of these clips."""

    def extras(self, rule: BoundedRule) -> Extras:
        """What a rule may need that is not of the round's updates; nothing for one that needs the updates alone."""
        if not rule.rule.needs:
            return NOTHING
        clips = self.registered()
        return Extras(
            clients=len(clips),
            total_samples=total_of(clips, rule.factor),
            objectives=self.objectives,
            reference_samples=float(self.labelled),
            state=self.state(),
            round=self.number,
        )


def with_training(
    extras: Extras,
    rule: BoundedRule,
    plan: Plan,
    headers: Sequence[UpdateHeader],
    planned: Callable[[], PlannedSteps | None],
    starts: Float64Array | None = None,
) -> Extras:
    """The extras with what the updates of a synchronous round say of their training.

    Parameters
    ----------
    extras
        What the coordinator has.
    plan, planned
        What devices do, and how many steps that is; called where the rule needs it, None: not known.
    headers
        Of the updates.
    starts
        (K, P) the models that devices began with; None: all with the round's.
    """
    return replace(
        extras,
        steps=np.array([header.steps for header in headers], np.float64),
        planned=planned() if "steps" in rule.rule.needs else None,
        rate=plan.rate,
        starts=starts,
    )


def build_cohort(
    table: TensorTable,
    start: Flat,
    headers: Sequence[UpdateHeader],
    weights: Sequence[Flat] | NDArray[np.float32],
    vectors: Sequence[Mapping[str, Flat]],
    *,
    ids: Sequence[str] | None = None,
    registered: Mapping[str, float] | None = None,
    extras: Extras = NOTHING,
    opener: Opener = NumpyMatrix,
) -> Cohort:
    """The updates of a round as arrays.

    Parameters
    ----------
    table
        Of the plug-in; its layer groups are those of the rule.
    start
        (P,) the model that the round's model follows.
    headers, weights, vectors
        Of K updates: what they say, their weights (K, P), and what they brought beside these by name.
    ids
        (K,) names of the clients; None: the devices'.
    registered
        Clips that devices registered, by name; None: not known of any.
    extras
        What the rule needs beyond this, its rows in the order of `headers`.
    opener
        What rules compute with, see `auricle_learning.aggregation.compute.accelerator`.

    Raises
    ------
    CohortError
        As of `Cohort.build`.
    """
    return Cohort.build(
        ids=[header.device for header in headers] if ids is None else ids,
        weights=weights,
        samples=[header.samples for header in headers],
        losses=[np.nan if header.loss is None else header.loss for header in headers],
        start=start,
        layers=layers_of((spec.name, spec.size, spec.layer) for spec in table.specs),
        opener=opener,
        registered=None if registered is None else _clip_counts(headers, registered),
        extras=replace(with_vectors(extras, vectors, table), labelled=label_flags(headers)),
    )


def _clip_counts(headers: Sequence[UpdateHeader], registered: Mapping[str, float]) -> ArrayLike:
    """Clips that devices registered, which are their labelled ones: they bound no count that has others in it."""
    return [np.nan if header.unsupervised else registered.get(header.device, np.nan) for header in headers]


def label_flags(headers: Sequence[UpdateHeader]) -> Float64Array:
    """(K,) 1 for each update that had samples with labels."""
    return np.array([float(header.samples > (header.unsupervised or 0)) for header in headers])


def with_vectors(extras: Extras, brought: Sequence[Mapping[str, Flat]], table: TensorTable) -> Extras:
    """The extras with what followed updates' weights: maps, and of each client its gradients (C, C d + C) or none.

    Parameters
    ----------
    brought
        Of each update, its vectors by name.
    table
        Whose classifier gradients are of.
    """
    names = {name for vectors in brought for name in vectors}
    by_name = {name: [vectors.get(name) for vectors in brought] for name in names}
    found = replace(extras, vectors=by_name, maps=stacked_maps(by_name.get(MAPS, [])))
    if GRADIENTS not in by_name:
        return found
    classes = table.specs[-1].size
    by_class = [None if one is None else one.reshape(classes, -1) for one in by_name[GRADIENTS]]
    return replace(found, gradients=by_class)


def stacked_maps(maps: Sequence[Flat | None]) -> Float64Array | None:
    """(K, M) the activation maps (M,) that updates brought; None where one brought none, or another number."""
    known = [one for one in maps if one is not None and one.size]
    same = len(known) == len(maps) and len({one.size for one in known}) == 1
    return np.stack(known).astype(np.float64) if same else None


def put_onto(start: Flat, base: Flat, weights: Flat, share: float = 1.0) -> Flat:
    """What an update (P,) that was trained from `base` (P,) is worth after another model `start` (P,), as (P,).

    Parameters
    ----------
    share
        Of its difference that counts: less than 1 for an update that is stale.
    """
    return np.asarray(start + (weights.astype(np.float64) - base) * share, np.float32)
