"""The plug-in trained in one place: the ceiling, on all devices' clips, and a first model, on the coordinator's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.packs.pack import Pack
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_cloud.evaluation.validation_set import describe_cut, load_energies
from auricle_fleet.population.data import FleetData
from auricle_fleet.settings.check import labelled_folder, learns_from_labelled
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.runtimes import Runtime
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import Trainer

RATE, DECAY, WARMUP_EPOCHS = 3e-3, 0.01, 3


@dataclass(frozen=True, eq=False)
class CentralTraining:
    """Trains a run's plug-in on clips that lie together: AdamW at 3e-3, half a cosine down over the epochs.

    Augmentation is that of the devices.
    """

    runtime: Runtime
    """What trains."""
    seed: int
    """Of initial weights, order and augmentation."""
    noise: NDArray[np.float32] | None = None
    """Mel energies (F, mels) of background noise to add; None where there is none."""
    learn: LearnSettings | None = None
    """The devices' settings; without, the defaults."""

    def train(
        self,
        clips: Clips,
        epochs: int,
        progress: Callable[[int, int], None] = lambda *_: None,
        start: Flat | None = None,
    ) -> Flat:
        """Train; the weights (P,) of the plug-in.

        Parameters
        ----------
        clips
            All are trained on.
        epochs
            Passes over the clips.
        progress
            Called after every epoch with epochs done and in all.
        start
            Weights (P,) to start from; without, drawn from the seed.
        """
        data = DeviceData(clips, clips.chosen(np.zeros(0, np.int64)), self.noise)
        trainer = Trainer(self.runtime, self.runtime.pack.manifest.plugin, data, self.seed, settings=self.learn)
        state = trainer.first_state()
        weights = state.weights if start is None else start
        for epoch in range(epochs):
            rate = RATE * min(1.0, (epoch + 1) / WARMUP_EPOCHS) * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
            plan = Plan(mode="supervised", optimizer="adamw", rate=rate, decay=DECAY, keep_state=True, augment=True)
            result = trainer.run(plan, epoch, weights, state)
            weights, state = result.plugin, result.local
            progress(epoch + 1, epochs)
        return weights


def all_clips(data: FleetData) -> Clips:
    """The clips that the devices train on, put together; what they hold out stays out."""
    parts = [device.train for _, device in data.devices]
    return Clips(np.concatenate([p.energies for p in parts]), np.concatenate([p.targets for p in parts]))


def coordinator_clips(settings: FleetSettings, data: FleetData) -> Clips:
    """The labelled clips of the coordinator, of which there are some.

    Raises
    ------
    DataError
        They are of a folder that has no readable clip of the pack's words.
    """
    folder = labelled_folder(settings.labelled)
    if folder is not None:
        return Clips(*load_energies(Path(folder), data.pack))
    assert data.labelled is not None
    return data.labelled


def labelled_cut(settings: FleetSettings, pack: Pack) -> str:
    """Say that the folder of labelled clips has more than are taken; empty where it has not, or none is asked for."""
    folder = labelled_folder(settings.labelled)
    if folder is None or not (settings.pretrain or learns_from_labelled(settings)):
        return ""
    return describe_cut(Path(folder), pack)
