"""Writes onnxruntime-training's files for `bench/step_ort.py`: run where onnxruntime-training is installed.

python -m bench.step_artifacts SPEC.json
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from auricle.errors import AuricleError
from auricle.packs.pack import load_pack
from auricle_edge.runtimes.ort_checkpoint import Checkpoint
from auricle_edge.runtimes.ort_model import MODEL, tune
from auricle_export.packs.ort_artifacts import artifacts_of


def main() -> int:
    """Make the artifacts of every model of a specification, with its weights, into its folder `artifacts`."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    pack, data = load_pack(spec["pack"]), np.load(spec["data"])
    for role, model in spec["models"].items():
        try:
            made = artifacts_of(pack, model)
        except AuricleError as error:
            print(error, file=sys.stderr)
            return 1
        folder = Path(spec["artifacts"]) / role
        folder.mkdir(parents=True)
        checkpoint = Checkpoint(made["checkpoint"]).replace({MODEL: data[f"weights:{role}"]}, pack.table(model), 0)
        optimizer = tune(made[spec["optimizer"]], {"clip": math.inf, "decay": 0.0})
        for name, content in (
            ("training.onnx", made["training"]),
            ("evaluation.onnx", made["evaluation"]),
            ("optimizer.onnx", optimizer),
            ("checkpoint", checkpoint),
        ):
            (folder / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
