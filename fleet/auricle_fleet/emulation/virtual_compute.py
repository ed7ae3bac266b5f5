"""How long devices train on a clock that only counts: their steps, each of a stated time; nothing is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack
from auricle.wire.plan import Plan
from auricle_learning.methods.passes import graph_kind, graph_optimizer
from auricle_learning.training.carried import carried_to_train
from auricle_learning.training.fixmatch import counted
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import DeviceData
from auricle_learning.training.step_count import epochs_of, steps_of


@dataclass(frozen=True)
class Work:
    """What a round of a run asks of its devices."""

    step_seconds: float
    """Of a device with a `compute` of 1."""
    plan: Plan
    learn: LearnSettings
    epochs: int
    """Of all passes."""
    batch: int
    share: float
    """Of a batch that is the pack's negatives, for who has none of its own."""
    negative: tuple[int, ...]
    """Labels of what is no keyword."""

    def seconds(self, data: DeviceData, compute: float) -> float:
        """How long a device trains on these clips whose steps take `compute` times as long."""
        count = counted(self.plan, self.learn, data)
        own = int(np.isin(data.train.targets, self.negative).sum()) if self.share else 0
        return compute * self.step_seconds * steps_of(count, self.epochs, self.batch, self.share, own)


def work_of(pack: Pack, plan: Plan, learn: LearnSettings, step_seconds: float) -> Work | None:
    """The work of a run's rounds; None where no step takes time.

    Parameters
    ----------
    pack, plan, learn
        What is trained, and how.
    step_seconds
        Of a device with a `compute` of 1.
    """
    if not step_seconds:
        return None
    steps = [graph for graph in pack.manifest.graphs if graph.batch is not None]
    own = (graph.batch for graph in steps if (graph.kind, graph.optimizer) == (graph_kind(plan), graph_optimizer(plan)))
    batch = next(own, None) or next((graph.batch for graph in steps), None) or 1
    share = learn.carried if carried_to_train(pack, learn.carried, 0) is not None else 0.0
    negative = tuple(place for place, label in enumerate(pack.labels) if label in SPECIAL_LABELS)
    return Work(step_seconds, plan, learn, epochs_of(pack, plan), batch, share, negative)
