"""Rounds on single clips make a plug-in too keen on streams; with windows of the pack's negatives they do not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.edge.judge_toy import DETECT, PACK, stretches, taught
from tests.edge.toy import clips

from auricle.packs.pack import Pack
from auricle.speech.features import LogMel
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_edge.runtimes import StepRuntime
from auricle_edge.training.judge.sound import carried_negatives
from auricle_edge.training.speech_data import Clips, DeviceData
from auricle_edge.training.train import Trainer
from auricle_edge.training.training_job import LearnSettings
from auricle_export.packs.start_weights import with_negatives

DEVICES, ROUNDS = 3, 4
PLAN = Plan(mode="supervised", optimizer="adamw", rate=1e-3, epochs=2, augment=True)


@pytest.fixture(scope="module")
def pack() -> Pack:
    """Of sixty sounds that are a keyword's and everything else's in equal parts half train and half judge."""
    return with_negatives(PACK, [("words", np.concatenate(stretches(60)))])


@pytest.fixture(scope="module")
def runtime(pack: Pack) -> StepRuntime:
    return StepRuntime(pack)


def _device(seed: int) -> DeviceData:
    """Single clips, two of them of no keyword."""
    some: Clips = clips(24, seed)
    kept = np.concatenate([np.flatnonzero(some.targets < 2), np.flatnonzero(some.targets == 2)[:2]])
    return DeviceData(some.chosen(kept), clips(6, seed + 50), None)


def _fleet(runtime: StepRuntime, plugin: Flat, share: float) -> Flat:
    """The plug-in after some rounds of which the server takes the devices' mean."""
    learn = LearnSettings(clips=1, judge=False, carried=share)
    fleet = [Trainer(runtime, "crnn-lite", _device(i), i, settings=learn) for i in range(DEVICES)]
    states = [device.first_state() for device in fleet]
    for number in range(1, ROUNDS + 1):
        done = [device.run(PLAN, number, plugin, state) for device, state in zip(fleet, states, strict=True)]
        plugin = np.stack([each.plugin for each in done]).mean(axis=0)
        states = [each.local for each in done]
    return plugin


@pytest.mark.slow
def test_rounds_on_clips_alone_make_a_plug_in_keener_and_on_the_packs_negatives_too_they_do_not(
    pack: Pack, runtime: StepRuntime
) -> None:
    start = taught()
    keener, rested = (_fleet(runtime, start, share) for share in (0.0, 0.5))
    judged = carried_negatives(pack, DETECT, 15)

    before, alone, both = (
        int(judged.accepts(runtime, "crnn-lite", plugin).sum()) for plugin in (start, keener, rested)
    )

    assert alone > before * 1.5
    assert both < before
    words = clips(60, 77)
    heard = runtime.logits("crnn-lite", rested, LogMel(pack.manifest.task).finish(words.energies)).argmax(axis=1)
    assert (heard == words.targets).mean() > 0.9
