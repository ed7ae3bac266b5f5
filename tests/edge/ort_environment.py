"""An environment with onnxruntime-training, whose module has onnxruntime's name, so that it cannot live in ours."""

from __future__ import annotations

import platform
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.edge import cached_environment

run_there = partial(cached_environment.run_there, sources=("core", "learning", "edge", "export"))


def requirements() -> list[str]:
    """What the environment holds: the project's own needs, those of `edge` but onnxruntime, and the extra's."""
    project = cached_environment.project()
    extras = project["optional-dependencies"]
    edge = [need for need in extras["edge"] if not need.startswith("onnxruntime")]
    return [*project["dependencies"], *edge, *extras["ort-training"]]


def ort_python() -> Path:
    """The environment's Python; skips the test, saying why, where there can be none."""
    _skip_without_wheel()
    return cached_environment.cached_python("ort-training", requirements())


def ort_package() -> Path:
    """A folder with onnxruntime-training alone, whose needs our environment has: seconds instead of a minute."""
    _skip_without_wheel()
    (need,) = (n for n in cached_environment.project()["optional-dependencies"]["ort-training"] if "onnxruntime" in n)
    return cached_environment.cached_package("ort-training", need)


def _skip_without_wheel() -> None:
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        pytest.skip(f"onnxruntime-training has no wheel for {sys.platform} on {platform.machine()}")
