"""Runtimes behind one interface: what runs a pack's graphs on the device.

`step` (stock onnxruntime), `native` (a C library of our own) and `ort-training` train and recognise, `tflite`
recognises. Each is loaded only when it is chosen, so that none of them needs another one's package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auricle_edge.runtimes.choice import RUNTIMES, STEP_GRAPHS, Choice, choose_runtime
from auricle_edge.runtimes.interface import (
    EVALUATION_BATCH,
    InferenceOnly,
    Job,
    Partial,
    Runtime,
    Training,
    accuracy,
    cross_entropy,
    joined_parts,
    named_parts,
    recogniser,
)

if TYPE_CHECKING:
    from auricle_edge.runtimes.step import StepRuntime

__all__ = [
    "EVALUATION_BATCH",
    "RUNTIMES",
    "STEP_GRAPHS",
    "Choice",
    "InferenceOnly",
    "Job",
    "Partial",
    "Runtime",
    "StepRuntime",
    "Training",
    "accuracy",
    "choose_runtime",
    "cross_entropy",
    "joined_parts",
    "named_parts",
    "recogniser",
]


def __getattr__(name: str) -> type:
    if name == "StepRuntime":
        from auricle_edge.runtimes.step import StepRuntime

        return StepRuntime
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
