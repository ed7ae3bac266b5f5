"""A package with a rule of its own as an installer leaves it, in a folder on the path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BROKEN = """
import numpy as np
from auricle_learning.aggregation.cohort import Aggregate
from auricle_learning.aggregation.rules import Rule

calls = []

def broken(cohort):
    table = np.ones((len(cohort.ids), len(cohort.layers)), bool)
    weights = cohort.weights.mean(0, dtype=np.float32)
    if not calls:
        weights[3] = np.{value}
    calls.append(None)
    return Aggregate(weights, cohort.ids, cohort.names, table, table / len(table), dropped=cohort.dropped)

rule = Rule("broken", broken)
"""
"""A mean that gives a weight that is no number when it is called first."""


def install_rule(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, code: str) -> None:
    """Let `rule` of this code be found by its name until the test ends."""
    module = f"{name}_rule"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-rule\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[auricle.rules]\n{name} = {module}:rule\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)
