"""Run by the Python that has onnxruntime-training: trains the jobs of a folder with it, and writes what came out.

    python -m tests.edge.ort_probe FOLDER

FOLDER holds `trained.tar.zst` (a pack with artifacts), `jobs.json` and `batches.npz`; it gets `results.npz`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from auricle.errors import AuricleError
from auricle.packs.pack import Pack, load_pack
from auricle.wire.plan import Plan
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.ort_model import OrtArtifacts, OrtModel
from auricle_learning.runtimes import Job, StepRuntime
from auricle_learning.runtimes.interface import Runtime
from auricle_learning.training.train import LocalState, Trainer

Arrays = dict[str, np.ndarray[Any, Any]]


def job_of(pack: Pack, facts: dict[str, Any]) -> Job:
    """A job of `jobs.json`: its models start from `initial(seed)`, seeds counted by role."""
    models = facts["models"]
    weights = {role: pack.table(model).initial(seed) for seed, (role, model) in enumerate(models.items())}
    scalars = facts["scalars"]
    return Job(kind=facts["kind"], models=models, optimizer=facts["optimizer"], weights=weights, scalars=scalars)


def trained(runtime: Runtime, job: Job, steps: int, batches: Arrays) -> Arrays:
    """Losses of every step, and weights and optimizer state after the last."""
    training = runtime.begin(job)
    names = ("x", "target", "weight")
    losses = [training.step({name: batches[name][i] for name in names}) for i in range(steps)]
    found: Arrays = {f"loss/{name}": np.array([loss[name] for loss in losses]) for name in losses[0]}
    found |= {f"weights/{role}": training.weights(role) for role in job.models}
    return found | {f"slots/{name}": vector for name, vector in training.slots().items()}


def gradient(pack: Pack, model: str, batches: Arrays) -> np.ndarray[Any, Any]:
    """Of 0.5 CE + 0.5 KL to the teacher `teacher`, at `initial(0)`, on the first batch."""
    loaded = OrtModel(OrtArtifacts(pack, 1), model, "sgd", {}, pack.table(model).initial(0), {}, 0)
    half, one = np.array(0.5, np.float32), np.array(1, np.float32)
    x, target, weight, teacher = (batches[name][0] for name in ("x", "target", "weight", "teacher"))
    return loaded.gradient(x, target, teacher, weight, half, half, one)


def rounds(runtime: Runtime, plan: Plan, state: LocalState | None = None) -> Arrays:
    """Two rounds of a device whose state is kept."""
    from tests.learning.toy import device

    trainer = Trainer(runtime, "crnn-base", device(20), 3)
    state, plugin = trainer.first_state(), runtime.pack.plugin_table.initial(0)
    for number in (1, 2):
        result = trainer.run(plan, number, plugin, state)
        plugin, state = result.plugin, result.local
    return {"plugin": plugin, "local": state.weights, "steps": np.array(state.steps), "loss": np.array(result.loss)}


def refusals(runtime: Runtime) -> list[str]:
    """What it says to jobs that it cannot do."""
    pack = runtime.pack
    jobs: list[dict[str, Any]] = [
        {"kind": "distill"},
        {"terms": ("drift",)},
        {"scalars": {"model.rate": 0.1, "model.momentum": 0.9}},
        {"optimizer": "adamw", "scalars": {"model.rate": 0.1, "model.l2": 0.1}},
    ]
    said = []
    for changes in jobs:
        values = {"kind": "supervised", "models": {"model": "crnn-lite"}, "optimizer": "sgd"}
        values |= {"weights": {"model": pack.plugin_table.initial(0)}, "scalars": {"model.rate": 0.1}, **changes}
        try:
            runtime.begin(Job(**values))
            said.append("")
        except AuricleError as error:
            said.append(str(error))
    return said


def unloadable(pack: Pack) -> list[str]:
    """What the onnxruntime inside this package says to the pack's own graphs, where it refuses one."""
    runtime, said = StepRuntime(pack), []
    for graph in pack.manifest.graphs:
        try:
            runtime._session(graph)
        except AuricleError as error:
            said.append(str(error))
    return said


def main(folder: Path) -> None:
    pack = load_pack(folder / "trained.tar.zst")
    batches = dict(np.load(folder / "batches.npz"))
    chosen = choose_runtime("ort-training", pack)
    runtime, results = chosen.runtime, Arrays()
    for name, facts in json.loads((folder / "jobs.json").read_text()).items():
        made = trained(runtime, job_of(pack, facts), facts["steps"], batches)
        results |= {f"{name}:{key}": value for key, value in made.items()}
    for model in ("crnn-lite", "crnn-base"):
        results[f"gradient:{model}"] = gradient(pack, model, batches)
    plan = Plan(optimizer="mixed", rate=0.05, local_rate=1e-3, clip=5.0, decay=0.01, plugin_ce=1.0, keep_state=True)
    for name, other in (("ort-training", runtime), ("step", StepRuntime(pack))):
        results |= {f"rounds/{name}:{key}": value for key, value in rounds(other, plan).items()}
    x = batches["x"][0]
    weights = pack.plugin_table.initial(0)
    results["logits:ort-training"] = runtime.logits("crnn-lite", weights, x)
    results["logits:step"] = StepRuntime(pack).logits("crnn-lite", weights, x)
    np.savez(folder / "results.npz", **results)  # type: ignore[arg-type]
    facts = {
        "auto": choose_runtime("auto", pack).runtime.name,
        "refusals": refusals(runtime),
        "unloadable": unloadable(pack),
        "torch": "torch" in sys.modules,
        "onnxruntime": sys.modules["onnxruntime"].__version__,
    }
    (folder / "facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
