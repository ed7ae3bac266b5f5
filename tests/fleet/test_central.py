"""The ceiling: the plug-in trained on everybody's clips together."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.packs.pack import Pack, load_pack
from auricle_edge.runtimes import StepRuntime
from auricle_edge.training.speech_data import Clips, DeviceData
from auricle_fleet.emulation.central import train_centrally
from auricle_fleet.emulation.data import FleetData

LABELS = ("low", "high")


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack("gsc35").with_labels(LABELS)


def speech(pack: Pack, count: int, seed: int) -> Clips:
    """Two words that differ in where their energy lies: low bands or high bands."""
    rng = np.random.default_rng(seed)
    task = pack.manifest.task
    targets = np.arange(count) % 2
    energies = rng.random((count, task.frames, task.frontend.mels), dtype=np.float32) * 0.1
    half = task.frontend.mels // 2
    energies[targets == 0, 20:80, :half] += 10
    energies[targets == 1, 20:80, half:] += 10
    return Clips(energies, targets.astype(np.int64))


def fleet(pack: Pack) -> FleetData:
    nothing = np.zeros(0, np.int64)
    parts = []
    for i in range(2):
        clips = speech(pack, 16, i)
        parts.append((f"s{i}", DeviceData(clips, clips.chosen(nothing), None)))
    return FleetData(pack, tuple(parts), speech(pack, 20, 9), 1, np.zeros(20, np.int64), ())


def test_an_easy_task_is_learnt_and_every_epoch_told(pack: Pack) -> None:
    told: list[tuple[int, int]] = []

    reached = train_centrally(fleet(pack), StepRuntime(pack), 12, 0, lambda done, total: told.append((done, total)))

    assert reached >= 0.9
    assert told == [(n, 12) for n in range(1, 13)]


def test_the_same_seed_gives_the_same_ceiling(pack: Pack) -> None:
    runtime = StepRuntime(pack)

    first, second = (train_centrally(fleet(pack), runtime, 1, 5) for _ in range(2))

    assert first == second
