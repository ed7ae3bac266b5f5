"""What a plan has devices do besides its method: each in a file of its own, as changes of the passes of a round."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auricle.wire.plan import Plan
from auricle.wire.prior_knowledge import PriorKnowledge
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import JobChanges
from auricle_learning.runtimes import Runtime
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData


@dataclass(frozen=True, eq=False)
class LentData:
    """What comes to a device beside a round's model."""

    prior: PriorKnowledge | None = None
    """What it tunes its classifier by."""
    vectors: Mapping[str, Flat] = field(default_factory=dict)
    """Of the plan's method, by name."""


NOTHING_LENT = LentData()


@dataclass(frozen=True, eq=False)
class DeviceRound:
    """One round on one device, before it is trained."""

    plan: Plan
    plugin: Flat
    """(P,) w^t."""
    lent: LentData
    runtime: Runtime
    data: DeviceData
    settings: LearnSettings
    features: Callable[[Clips], Iterator[NDArray[np.float32]]]
    """Makes log-mels (n, T, mels) of clips as they are, piece by piece."""
    checkpoint: Callable[[], bool]
    """Called now and then. It may wait, and says whether the round is over."""

    def logits(self, clips: Clips) -> NDArray[np.float32]:
        """(N, labels) of the received plug-in."""
        name = self.runtime.pack.manifest.plugin
        return np.concatenate([self.runtime.logits(name, self.plugin, x) for x in self.features(clips)])


class Mechanism:
    """One of these in one round; what it leaves out changes nothing."""

    loss: float = math.nan
    """Of the received plug-in, where there are no clips with a label to say it of."""
    sure: int = 0
    """Clips without labels of which the received plug-in is sure."""

    def changes(self, place: int, plan: Plan, changes: JobChanges) -> JobChanges:
        """What becomes of a pass.

        Parameters
        ----------
        place
            Of the pass, from 0.
        plan
            As the pass takes it.
        changes
            What the method, and the mechanisms before this one, change of it.
        """
        return changes

    def vectors(self, trained: Flat) -> Mapping[str, Flat]:
        """What travels beside the weights, by name, of the plug-in (P,) as it was trained."""
        return {}
