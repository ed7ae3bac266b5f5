"""A model of a run without links, what devices begin with, and what a round's report says of how it was made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.wire.messages import Update
from auricle.wire.tensors import Flat, digest, encode
from auricle_cloud.rounds.model_report import report_model
from auricle_fleet.population.held_out import HeldOutScore, ModelRole
from auricle_learning.aggregation.cohort import Aggregate


@dataclass(frozen=True, eq=False)
class Model:
    """A model, and what is kept with it for the next round."""

    weights: Flat
    kept: bytes | None = None
    """Its `ServerState`."""
    own: Mapping[str, Flat] = field(default_factory=dict)
    """Models that devices begin with of their own, by device, where the rule makes them."""

    @cached_property
    def base(self) -> str:
        """SHA-256 of its weights as they travel, by which invitations name it."""
        return digest(encode(self.weights))

    def start(self, device: str) -> Flat:
        """What a device begins with."""
        return self.own.get(device, self.weights)


def own_models(before: Model, aggregate: Aggregate) -> dict[str, Flat]:
    """What devices begin with after a round: those that counted with what the rule made for them, if it does."""
    made = aggregate.clusters
    if made is None:
        return dict(before.own)
    if made.models is None:
        return {}
    fresh = zip(aggregate.ids, made.models, strict=True)
    return {**before.own, **{device: np.asarray(weights, np.float32) for device, weights in fresh}}


def starts(model: Model, devices: Sequence[str]) -> NDArray[np.float64] | None:
    """(K, P) what devices began with; None where that was the round's model for all."""
    if not any(device in model.own for device in devices):
        return None
    return np.stack([model.start(device) for device in devices]).astype(np.float64)


def explain_model(
    aggregate: Aggregate, counted: list[Update], scores: Mapping[str, Mapping[ModelRole, HeldOutScore]]
) -> dict[str, object]:
    """What a report says of a model, as a coordinator writes it, and what devices' models recognise."""
    out = {*aggregate.left_out}
    updates = [
        {
            "device": update.device,
            "samples": update.samples,
            "loss": None if math.isnan(update.loss) else update.loss,
            "steps": update.steps,
            "personal_accuracy": update.personal_accuracy,
            "plugin_accuracy": update.plugin_accuracy,
            "held_out": update.held_out,
            "unsupervised": None if update.unsupervised is UNSET else update.unsupervised,
            "left_out": update.device in out,
            "scores": msgspec.to_builtins(scores.get(update.device, {})),
        }
        for update in counted
    ]
    return report_model(aggregate, updates)
