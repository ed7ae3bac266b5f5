"""A trainer whose rounds take milliseconds, and how often its agents speak."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import Trainer

T = TypeVar("T", bound=Trainer)

ASK, RESEND = 2.0, 1.0  # seconds between an agent's questions, and between two tries to send an update


def toy_trainer(runtime: StepRuntime, seed: int, kind: type[T]) -> T:
    """Three random clips: a round takes milliseconds."""
    rng = np.random.default_rng(seed)
    task = runtime.pack.manifest.task
    energies = rng.random((3, task.frames, task.frontend.mels), dtype=np.float32)
    train = Clips(energies, rng.integers(0, len(runtime.pack.labels), 3))
    return kind(runtime, "crnn-lite", DeviceData(train, train.chosen(np.arange(1)), None), seed)
