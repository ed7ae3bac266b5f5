"""How many clips and steps a device's round takes: known before it trains."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from auricle.packs.pack import Pack
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import JobChanges
from auricle_learning.methods.passes import head_size, plan_of_pass
from auricle_learning.methods.vectors import lent_sizes
from auricle_learning.training.carried import places_of
from auricle_learning.training.device_half import DeviceHalf
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import DeviceData


@dataclass(frozen=True)
class Count:
    """The clips that a device trains on in a round."""

    labelled: int
    unlabelled: int | None
    """None where the plan does not ask for FixMatch: a device speaks of its labelled clips alone then."""

    @property
    def all(self) -> int:
        """Of both kinds."""
        return self.labelled + (self.unlabelled or 0)


def counted(plan: Plan | None, settings: LearnSettings, data: DeviceData) -> Count:
    """Count a round's clips; without a plan those with labels."""
    if plan is None or not plan.fixmatch:
        return Count(len(data.train), None)
    return Count(len(data.train), len(data.unlabelled) if data.unlabelled is not None and settings.unlabelled else 0)


def steps_of(count: Count, epochs: int, batch: int, share: float = 0.0, negatives: int = 0) -> int:
    """Steps of a round: E max(ceil(n / (B - w)), ceil(u / B)), n clips with labels, u without, w places for windows.

    The steps that `batches` and `two_view_batches` make in all passes of a round. A device that learns from clips
    without labels of its own accord, which the plan does not ask for, has them in the places of these steps.

    Parameters
    ----------
    count
        n, and u where the plan asks for FixMatch.
    epochs
        E, of all passes.
    batch
        B, of the step graph.
    share
        Of a batch that is windows of the pack's negatives; 0 where it carries none to train on.
    negatives
        The device's own among the clips with labels, which leave less to the pack's.
    """
    places = batch - (places_of(share, negatives, batch) if share and count.labelled else 0)
    return epochs * max(math.ceil(count.labelled / places), math.ceil((count.unlabelled or 0) / batch))


def epochs_of(pack: Pack, plan: Plan) -> int:
    """Epochs of a round of this plan, those of all passes of its method."""
    return sum(plan_of_pass(plan, changes).epochs for changes in first_changes(pack, plan).passes)


def first_changes(pack: Pack, plan: Plan) -> JobChanges:
    """What the plan's method changes for a device that begins; as if its own model were the plug-in."""
    received, width = pack.plugin_table.initial(0), pack.plugin_table.specs[-2].shape[1]
    return DeviceHalf(plan, received, first_lent(pack, plan), {}, head=head_size(pack), width=width).before()


def first_lent(pack: Pack, plan: Plan) -> dict[str, Flat]:
    """The vectors that the plan's method has go out with a model, before its first round."""
    return {name: np.zeros(size, np.float32) for name, size in lent_sizes(plan, pack).items()}
