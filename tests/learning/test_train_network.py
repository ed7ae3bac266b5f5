"""Rounds on a head over a frozen network: the network hears each clip a few times and no more."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.export.frozen_toy import toy_network_pack

from auricle.wire.plan import Plan
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import Trainer

PACK = toy_network_pack()
TASK = PACK.manifest.task
MODEL = PACK.manifest.plugin
PLAN = Plan(mode="supervised", optimizer="sgd", epochs=6, rate=0.1, local_rate=0.1, momentum=0.9, augment=True)


def clips(count: int) -> Clips:
    """Loud low bands, loud high bands, or nothing, in turn."""
    rng, targets = np.random.default_rng(0), np.arange(count) % 3
    energies = rng.lognormal(-12, 0.5, (count, TASK.frames, TASK.frontend.mels)).astype(np.float32)
    energies[targets == 0, 15:30, :3] *= 1e5
    energies[targets == 1, 15:30, 5:] *= 1e5
    return Clips(energies, targets)


def test_the_network_hears_no_clip_more_often_than_it_has_variants() -> None:
    every = clips(24)
    trainer = Trainer(StepRuntime(PACK), MODEL, DeviceData(every, every.chosen(np.arange(6)), None), 1)
    heard: list[int] = []
    network, finish = trainer.frontend.network, trainer.frontend.network.vectors

    def counted(mels: np.ndarray) -> np.ndarray:
        heard.append(len(mels))
        return finish(mels)

    network.vectors = counted  # type: ignore[method-assign]
    plugin, state = PACK.plugin_table.initial(0), trainer.first_state()
    for number in range(3):
        trainer.inference_loss(plugin)
        result = trainer.run(PLAN, number, plugin, state)
        assert result.steps == 6 * 2
        assert not np.array_equal(result.plugin, plugin)
        plugin, state = result.plugin, result.local
    assert 24 * 3 < sum(heard) <= 24 * (1 + 4)
