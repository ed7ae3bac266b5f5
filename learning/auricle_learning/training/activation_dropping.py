"""BAVD: devices drop activations while they train (MuPFL, eq. 2-6), where the plan has `bavd`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import JobChanges
from auricle_learning.methods.vectors import MAPS
from auricle_learning.runtimes import Training
from auricle_learning.training.mechanism import DeviceRound, Mechanism


class ActivationDropping(Mechanism):
    """Of a round on a device."""

    def __init__(self, of: DeviceRound) -> None:
        """Nothing of the device itself is asked."""

    def changes(self, place: int, plan: Plan, changes: JobChanges) -> JobChanges:
        """Have the graph's layers drop; the first pass's last maps travel where the plan asks for them."""
        if not plan.bavd:
            return changes
        return replace(changes, drops=True, reads=last_maps if plan.bavd.maps and not place else None)


def last_maps(training: Training, role: str) -> Mapping[str, Flat]:
    """The activation maps of the plug-in as its training left them."""
    return {MAPS.name: np.nan_to_num(training.maps(role), posinf=0.0, neginf=0.0)}
