"""The cases of a model in onnxruntime-training: run by `bench/parity.py` where that is installed.

    python -m bench.parity_ort ASKED.json FOLDER

ASKED names a pack, a model, a number of steps; FOLDER gets `results.npz` and `refused.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from auricle.errors import AuricleError
from auricle.packs.pack import Pack, load_pack
from auricle.wire.tensors import Flat
from auricle_edge.runtimes.ort_model import OrtArtifacts, OrtModel
from auricle_edge.runtimes.ort_training import OrtTrainingRuntime
from auricle_export.packs.ort_artifacts import with_artifacts
from auricle_learning.runtimes import Job
from bench.parity_cases import LOSSES, Batch, batches, cases, job


def gradients(pack: Pack, given: Job, batch: Batch) -> dict[str, Flat]:
    """By role: of the losses that a step of the job differentiates."""
    artifacts = OrtArtifacts(pack, 1)
    hyper = {"clip": np.inf, **({"beta1": 0.0, "epsilon": 1e-2} if given.optimizer == "adamw" else {})}
    models = {}
    for role, name in given.models.items():
        models[role] = OrtModel(artifacts, name, given.optimizer, hyper, given.weights[role], {}, 0)
        models[role].set_rate(given.scalar(f"{role}.rate"))

    def inputs(teacher: Any, *scalars: float) -> tuple[Any, ...]:
        return (batch["x"], batch["target"], teacher, batch["weight"], *(np.array(v, np.float32) for v in scalars))

    if len(models) == 1:
        return {"model": models["model"].gradient(*inputs(batch["target"], 1, 0, 1))}
    alpha, plugin_ce, temperature = (given.scalar(name) for name in ("alpha", "plugin_ce", "temperature"))
    local, plugin = models["local"], models["plugin"]
    taught = plugin.logits(*inputs(batch["target"], 1, 1, 1))
    own = inputs(taught, alpha, 1 - alpha, temperature)
    found = {"local": local.gradient(*own)}
    seen = local.logits(*inputs(batch["target"], 1, 1, 1))
    if given.kind == "alternating":
        local.train(*own)
        seen = local.logits(*inputs(batch["target"], 1, 1, 1))
    found["plugin"] = plugin.gradient(*inputs(seen, plugin_ce, 1, temperature))
    return found


def main() -> int:
    """Train every case of the model that it can; what it cannot is written down with the reason."""
    asked, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    pack = load_pack(asked["pack"])
    try:
        pack = with_artifacts(pack, sorted({asked["model"], pack.manifest.plugin}))
    except AuricleError as error:
        print(error, file=sys.stderr)
        return 1
    runtime = OrtTrainingRuntime(pack)
    results: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for case in cases(asked["model"]):
        if case.name not in asked["cases"]:
            continue
        given, given_batches = job(case, pack), batches(pack, LOSSES[case.loss].kind)
        try:
            training = runtime.begin(given)
        except AuricleError as error:
            refused[case.name] = str(error)
            continue
        bare = job(case, pack, bare=True)
        found = gradients(pack, bare, given_batches[1])
        results |= {f"gradient:{case.name}:{role}": value for role, value in found.items()}
        for number in range(asked["steps"]):
            training.step(given_batches[number % len(given_batches)])
        results |= {f"weights:{case.name}:{role}": training.weights(role) for role in given.models}
        print(f"onnxruntime-training: {case.name}", flush=True)
    np.savez(folder / "results.npz", **results)
    (folder / "refused.json").write_text(json.dumps(refused))
    return 0


if __name__ == "__main__":
    sys.exit(main())
