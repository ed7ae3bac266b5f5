"""Training on the toy task: its runtime, its first plug-in, and trainers of it."""

from __future__ import annotations

import msgspec
import numpy as np
from tests.edge.toy import PACK

from auricle.wire.plan import Plan
from auricle_edge.runtimes import StepRuntime
from auricle_edge.training.speech_data import DeviceData
from auricle_edge.training.train import Trainer

RUNTIME = StepRuntime(PACK)
PLUGIN = PACK.plugin_table.initial(0)
LITE = PACK.plugin_table
FAST = Plan(optimizer="adamw", rate=3e-3, local_rate=3e-3, epochs=4, plugin_ce=1.0)


def trainer_of(data: DeviceData, seed: int = 0) -> Trainer:
    """A trainer of the toy task, whose own model is CRNN-Lite."""
    return Trainer(RUNTIME, "crnn-lite", data, seed)


def plan_of(**changes: object) -> Plan:
    """The default plan with changes."""
    return msgspec.structs.replace(Plan(), **changes)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """How far one is from the other, by its length."""
    return float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b))
