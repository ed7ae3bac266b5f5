"""Training on the toy task: its runtime, its first plug-in, and trainers of it."""

from __future__ import annotations

import msgspec
import numpy as np
from tests.learning.toy import PACK, device

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import DeviceData
from auricle_learning.training.train import RoundResult, Trainer

RUNTIME = StepRuntime(PACK)
PLUGIN = PACK.plugin_table.initial(0)
LITE = PACK.plugin_table
FAST = Plan(optimizer="adamw", rate=3e-3, local_rate=3e-3, epochs=4, plugin_ce=1.0)


def trainer_of(data: DeviceData, seed: int = 0) -> Trainer:
    return Trainer(RUNTIME, "crnn-lite", data, seed)


def ran(trainer: Trainer, plan: Plan, plugin: Flat = PLUGIN, number: int = 1) -> RoundResult:
    return trainer.run(plan, number, plugin, trainer.first_state())


def plan_of(**changes: object) -> Plan:
    return msgspec.structs.replace(Plan(), **changes)


SURE = ran(trainer_of(device(48, seed=3)), Plan(mode="supervised", optimizer="adamw", rate=3e-3, epochs=25)).plugin
"""A plug-in that was taught the toy task."""


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """How far one is from the other, by its length."""
    return float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b))
