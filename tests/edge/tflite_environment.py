"""An environment with tflite-runtime, the older package that runs `.tflite` and needs NumPy before 2."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.edge import cached_environment

run_there = partial(cached_environment.run_there, sources=("core", "learning", "edge"))


def tflite_runtime_python() -> Path:
    """The environment's Python; skips the test, saying why, where there can be none."""
    project = cached_environment.project()
    return cached_environment.cached_python(
        "tflite-runtime", [*project["dependencies"], *project["optional-dependencies"]["tflite-runtime"]]
    )
