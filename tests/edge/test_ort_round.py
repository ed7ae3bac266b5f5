"""A round of a device on onnxruntime-training, without PyTorch, against the same round on the step runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.edge.cached_environment import ROOT, linked_packages
from tests.edge.ort_environment import ort_package
from tests.learning.toy import PACK

from auricle.packs.pack import pack_bytes

PROGRAM = """\
import importlib.util, json
import numpy as np
from auricle.packs.pack import load_pack
from auricle.wire.plan import Plan
from auricle_edge.runtimes import choose_runtime
from tests.edge.ort_probe import rounds

assert importlib.util.find_spec("torch") is None
pack = load_pack("trained.tar.zst")
plan = Plan(optimizer="mixed", rate=0.05, local_rate=1e-3, clip=5.0, decay=0.01, plugin_ce=1.0, keep_state=True)
theirs, ours = (rounds(choose_runtime(name, pack).runtime, plan) for name in ("ort-training", "step"))
start = {"plugin": pack.plugin_table.initial(0), "local": pack.table("crnn-base").initial(3)}
facts = {key: [float(theirs[key]), float(ours[key])] for key in ("loss", "steps")}
for key, first in start.items():
    facts[key] = float(np.linalg.norm(theirs[key] - ours[key]) / np.linalg.norm(ours[key] - first))
print(json.dumps(facts))
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_device_without_pytorch_trains_rounds_as_the_step_runtime_does(tmp_path: Path) -> None:
    """The trial in a child is part of it, and what makes the artifacts too."""
    packages = linked_packages(tmp_path / "packages", "onnxruntime", "torch", "functorch")
    (tmp_path / "toy.tar.zst").write_bytes(pack_bytes(PACK))
    sources = (ROOT / part for part in (".", "core", "learning", "edge", "export"))
    paths = os.pathsep.join(map(str, [ort_package(), packages, *sources]))

    def run_there(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-S", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    export = "-m auricle export artifacts toy.tar.zst --out trained.tar.zst --models crnn-lite,crnn-base"
    run_there(*export.split())
    facts = json.loads(run_there("-c", PROGRAM))

    assert facts["steps"] == [4, 4]
    theirs, ours = facts["loss"]
    assert theirs == pytest.approx(ours, rel=1e-6)
    assert facts["plugin"] < 1e-4
    assert facts["local"] < 1e-2, "AdamW at 1e-8: signs, where near 0"
