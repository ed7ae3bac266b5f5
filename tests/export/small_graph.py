"""Graphs of a few operators, built and run: values in, values out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime as ort

from auricle_export.compiler.builder import GraphBuilder


def run(build: Callable[[GraphBuilder], object], feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Build a graph whose inputs are the feeds, and run it; what `build` returns by name are its outputs.

    `build` may also declare outputs itself and return None.
    """
    b = GraphBuilder()
    given = {name: np.asarray(value, np.float32) for name, value in feeds.items()}
    for name, value in given.items():
        b.input(name, value.shape)
    made = build(b)
    outputs = list(made) if isinstance(made, dict) else list(b._outputs)
    for name in outputs if isinstance(made, dict) else ():
        b.output(name, made[name], [f"{name}.{axis}" for axis in range(_rank(name))])
    model = b.build(list(given), outputs)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = dict(zip(outputs, session.run(outputs, given), strict=True))
    assert not isinstance(made, dict) or all(value.ndim == _rank(name) for name, value in found.items())
    return found


def _rank(name: str) -> int:
    """Axes of an output: a gradient or a share has a row a sample, everything else is a scalar."""
    return 2 if name.startswith(("gradient", "share")) else 0
