"""Logit adjustment (Menon et al. 2021, https://arxiv.org/abs/2007.07314, eq. 10), at the strength `Plan.prior`.

Training with the clips' log label frequencies in the biases, and taking them off again, keeps a device that lacks some
words from unlearning these.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import JobChanges
from auricle_learning.training.mechanism import DeviceRound, Mechanism
from auricle_learning.training.speech_data import Clips


def label_offset(clips: Clips, strength: float, labels: int) -> Flat:
    """(C,) strength times the log label frequencies of clips, by their weights, smoothed by half a clip and centred."""
    counts = np.bincount(clips.targets, clips.weights, minlength=labels) + 0.5
    prior = np.log(counts / counts.sum())
    return np.asarray(strength * (prior - prior.mean()), np.float32)


class LogitAdjustment(Mechanism):
    """Of a round on a device."""

    def __init__(self, of: DeviceRound) -> None:
        self._round = of

    def changes(self, place: int, plan: Plan, changes: JobChanges) -> JobChanges:
        """Add the label frequencies to the plug-in's biases for the time of its training."""
        if not plan.prior:
            return changes
        labels = len(self._round.runtime.pack.labels)
        return replace(changes, offset=label_offset(self._round.data.train, plan.prior, labels))
