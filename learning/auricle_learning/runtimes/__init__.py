"""The interface behind which a pack's graphs are run, and stock onnxruntime, which runs all of them.

Onnxruntime is loaded only when `StepRuntime` is asked for, so that other runtimes do not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auricle_learning.runtimes.interface import (
    EVALUATION_BATCH,
    InferenceOnly,
    Job,
    Partial,
    Runtime,
    Training,
    accuracy,
    cross_entropy,
    frontend_of,
    joined_parts,
    named_parts,
    recogniser,
)

if TYPE_CHECKING:
    from auricle_learning.runtimes.step import StepRuntime

__all__ = [
    "EVALUATION_BATCH",
    "InferenceOnly",
    "Job",
    "Partial",
    "Runtime",
    "StepRuntime",
    "Training",
    "accuracy",
    "cross_entropy",
    "frontend_of",
    "joined_parts",
    "named_parts",
    "recogniser",
]


def __getattr__(name: str) -> type:
    if name == "StepRuntime":
        from auricle_learning.runtimes.step import StepRuntime

        return StepRuntime
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
