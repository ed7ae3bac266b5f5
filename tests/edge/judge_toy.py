"""A device with two keywords and a label for everything else, and negatives on which a bias decides who is heard."""

from __future__ import annotations

import numpy as np
from tests.learning.toy import PACK as THREE
from tests.learning.toy import clips

from auricle.packs.pack import Pack
from auricle.speech.features import Energies, LogMel
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.training.judge.sound import Negatives
from auricle_edge.training.judge.streams import Streams
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import Trainer

PACK: Pack = THREE.with_labels(("low", "middle", "_unknown_"))
RUNTIME = StepRuntime(PACK)
DETECT = DetectSettings(threshold=0.6, vad="off")
PAUSE = 100
"""Frames around a sound in a stretch: a second."""


def taught() -> Flat:
    """A plug-in that knows the toy task: bands of `high` are `_unknown_`."""
    pupil = Trainer(RUNTIME, "crnn-lite", DeviceData(clips(48, 3), clips(6, 4), None), 0)
    plan = Plan(mode="supervised", optimizer="adamw", rate=5e-3, epochs=12)
    return pupil.run(plan, 1, PACK.plugin_table.initial(0), pupil.first_state()).plugin


def louder(weights: Flat, by: float) -> Flat:
    """The same model with so much more bias on the keywords than on the rest."""
    moved = weights.copy()
    moved[-3:] += np.array([by, by, 0], np.float32)
    return moved


def stretches(count: int, seed: int = 9) -> list[Energies]:
    """Sounds that are a keyword's and everything else's in equal parts, each amid a second of faint noise."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        sound = rng.gamma(1.0, 1.0, (PAUSE + 100 + PAUSE, 40)).astype(np.float32)
        place, share = PAUSE + rng.integers(10, 50), rng.uniform(0.2, 0.8)
        sound[place : place + 40, 0:13] *= 20 * share
        sound[place : place + 40, 26:39] *= 20 * (1 - share)
        made.append(sound)
    return made


def negatives(count: int, seed: int = 9) -> Negatives:
    """Such sounds as negatives that a pack could carry."""
    return Negatives(Streams(LogMel(PACK.manifest.task), PACK.labels, DETECT, stretches(count, seed)))


def device(held_out: int = 60) -> DeviceData:
    """Clips of the three labels in turn."""
    return DeviceData(clips(24, 0), clips(held_out, 1000), None)


def keywords(held_out: int) -> DeviceData:
    """The same without negatives among the clips that are held out."""
    whole = clips(held_out, 1000)
    kept: Clips = whole.chosen(np.flatnonzero(whole.targets < 2))
    return DeviceData(clips(24, 0), kept, None)
