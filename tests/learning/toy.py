"""A task small enough to learn in a second: three labels that differ in which mel bands are loud."""

from __future__ import annotations

import numpy as np

from auricle.packs.pack import Pack, load_pack
from auricle_learning.training.speech_data import Clips, DeviceData

LABELS = ("low", "middle", "high")
PACK: Pack = load_pack("gsc12").with_labels(LABELS)


def clips(count: int, seed: int = 0) -> Clips:
    rng = np.random.default_rng(seed)
    targets = np.arange(count) % len(LABELS)
    energies = rng.gamma(1.0, 1.0, (count, 100, 40)).astype(np.float32)
    for i, target in enumerate(targets):
        start = rng.integers(10, 50)
        energies[i, start : start + 40, 13 * target : 13 * target + 13] *= 20
    return Clips(energies, targets.astype(np.int64))


def device(train: int, held_out: int = 6, seed: int = 0) -> DeviceData:
    return DeviceData(clips(train, seed), clips(held_out, seed + 1000), None)
