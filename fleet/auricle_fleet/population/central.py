"""The ceiling: the plug-in trained centrally on all devices' clips, with the same front-end and augmentation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_fleet.population.data import FleetData
from auricle_learning.runtimes import Runtime, accuracy, frontend_of
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import Trainer

RATE, DECAY, WARMUP_EPOCHS = 3e-3, 0.01, 3


def train_centrally(
    data: FleetData,
    runtime: Runtime,
    epochs: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda *_: None,
    start: Flat | None = None,
    learn: LearnSettings | None = None,
    judge: Callable[[Flat], float | None] | None = None,
) -> float | None:
    """Accuracy on unseen speakers after central training: AdamW at 3e-3, half a cosine down over the epochs.

    Parameters
    ----------
    data
        The fleet's clips; training parts of all devices are put together, held-out parts stay out as in the fleet.
    runtime
        What trains and recognises.
    epochs
        Passes over the clips.
    seed
        Of initial weights, order and augmentation.
    progress
        Called after every epoch with epochs done and in all.
    start
        Weights (P,) to start from; without, drawn from the seed.
    learn
        The devices' settings; without, the defaults.
    judge
        Gives the accuracy of a plug-in (P,), as the rounds of the fleet are measured; without, on all unseen speakers.
    """
    parts = [device.train for _, device in data.devices]
    clips = Clips(np.concatenate([p.energies for p in parts]), np.concatenate([p.targets for p in parts]))
    plugin = data.pack.manifest.plugin
    noise = data.devices[0][1].noise
    everything = DeviceData(clips, clips.chosen(np.zeros(0, np.int64)), noise)
    trainer = Trainer(runtime, plugin, everything, seed, settings=learn)
    state = trainer.first_state()
    weights = state.weights if start is None else start
    for epoch in range(epochs):
        rate = RATE * min(1.0, (epoch + 1) / WARMUP_EPOCHS) * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        plan = Plan(mode="supervised", optimizer="adamw", rate=rate, decay=DECAY, keep_state=True, augment=True)
        result = trainer.run(plan, epoch, weights, state)
        weights, state = result.plugin, result.local
        progress(epoch + 1, epochs)
    if judge is not None:
        return judge(weights)
    features = frontend_of(runtime).finish(data.unseen.energies)
    return accuracy(runtime.logits(plugin, weights, features), data.unseen.targets)
