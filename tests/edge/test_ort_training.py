"""onnxruntime-training, in an environment of its own, against the step runtime here and PyTorch in float64."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.edge.ort_environment import ort_python, run_there
from tests.edge.ort_probe import job_of, trained
from tests.learning.toy import PACK

from auricle.files import write_durably
from auricle.packs.pack import load_pack, pack_bytes
from auricle_learning.runtimes import StepRuntime

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(1500)]

STEPS = 20
SUPERVISED = {"model": "crnn-lite"}, {"model": "crnn-base"}
MUTUAL = {"local": "crnn-base", "plugin": "crnn-lite"}
ADAMW = {"epsilon": 1e-3, "decay": 0.1, "clip": 0.5}
"""An epsilon that keeps AdamW smooth: with 1e-8 its first steps are signs, which rounding decides near 0."""


def _jobs() -> dict[str, dict[str, Any]]:
    jobs = {}
    for optimizer, hyper in (("sgd", {"clip": 0.5}), ("adamw", ADAMW)):
        for models in SUPERVISED:
            jobs[f"supervised/{models['model']}/{optimizer}"] = {"kind": "supervised", "models": models}
        for kind in ("mutual", "alternating"):
            jobs[f"{kind}/{optimizer}"] = {"kind": kind, "models": MUTUAL}
        for name, job in jobs.items():
            if name.endswith(optimizer):
                rate = {"sgd": 0.1, "adamw": 1e-3}[optimizer]
                scalars = {f"{role}.{n}": v for role in job["models"] for n, v in {**hyper, "rate": rate}.items()}
                shared = {"alpha": 0.4, "plugin_ce": 0.7, "temperature": 2.0} if len(job["models"]) == 2 else {}
                job.update(optimizer=optimizer, scalars={**scalars, **shared})
    return {f"{name}/{n}": {**job, "steps": n} for name, job in jobs.items() for n in (1, STEPS)}


JOBS = _jobs()


def _batches() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (STEPS, 16))
    weight = np.ones((STEPS, 16), np.float32)
    weight[::3, 11:] = 0
    return {
        "x": rng.standard_normal((STEPS, 16, 100, 40), np.float32),
        "target": np.eye(3, dtype=np.float32)[labels],
        "weight": weight,
        "teacher": rng.standard_normal((STEPS, 16, 3), np.float32),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the artifacts, and what training with them gave, lie."""
    python = ort_python()
    folder = tmp_path_factory.mktemp("ort")
    write_durably(folder / "toy.tar.zst", pack_bytes(PACK))
    np.savez(folder / "batches.npz", **_batches())  # type: ignore[arg-type]
    (folder / "jobs.json").write_text(json.dumps(JOBS))
    for name in ("trained", "again"):
        export = f"-m auricle export artifacts toy.tar.zst --out {name}.tar.zst --json"
        made = run_there(python, *export.split(), folder=folder)
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["identity"] == load_pack(folder / f"{name}.tar.zst").identity
    done = run_there(python, "-m", "tests.edge.ort_probe", folder, folder=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, np.ndarray]:
    return dict(np.load(folder / "results.npz"))


@pytest.fixture(scope="module")
def facts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    return found


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b))


@pytest.mark.parametrize("name", JOBS)
def test_it_trains_like_the_step_runtime(name: str, results: dict[str, np.ndarray]) -> None:
    """Losses of every step, and how far the weights moved after 1 and 20 of them."""
    facts = JOBS[name]
    job = job_of(PACK, facts)
    ours = trained(StepRuntime(PACK), job, facts["steps"], _batches())
    for key, value in ours.items():
        theirs = results[f"{name}:{key}"]
        kind, _, what = key.partition("/")
        if kind == "loss":
            assert theirs == pytest.approx(value, rel=1e-6), key
        elif kind == "weights":
            start = job.weights[what]
            assert _distance(theirs - start, value - start) < (2e-5 if facts["steps"] == 1 else 1e-4), key
        elif facts["optimizer"] == "adamw":
            assert _distance(theirs, value) < (1e-5 if facts["steps"] == 1 else 1e-4), key


@pytest.mark.parametrize("model", ["crnn-lite", "crnn-base"])
def test_its_gradients_are_pytorchs(model: str, results: dict[str, np.ndarray]) -> None:
    """Of cross-entropy and KL to a teacher, tensor by tensor, against float64: at most 1e-5."""
    torch = pytest.importorskip("torch")
    from auricle_export.packs.models import ARCHITECTURES, WHEEL_CRNNS, Crnn

    table, batch = PACK.table(model), {name: torch.tensor(v[0]).double() for name, v in _batches().items()}
    module = Crnn(ARCHITECTURES[WHEEL_CRNNS[model]], 3).double()
    parameters = dict(module.named_parameters())
    for spec in table.specs:
        parameters[spec.name].data = torch.tensor(table.tensor(table.initial(0), spec.name)).double()
    student, teacher = (z.log_softmax(1) for z in (module(batch["x"]), batch["teacher"]))
    each = (teacher.exp() * (teacher - student)).sum(1) - (batch["target"] * student).sum(1)
    (0.5 * (each * batch["weight"]).sum() / batch["weight"].sum()).backward()
    for spec in table.specs:
        found = table.tensor(results[f"gradient:{model}"], spec.name)
        assert _distance(found, parameters[spec.name].grad.numpy()) < 1e-5, spec.name


def test_a_device_trains_rounds_with_it_and_keeps_its_state(results: dict[str, np.ndarray]) -> None:
    """AdamW for the local model, plain SGD for the plug-in, clipped, over two rounds of two steps."""
    ours, theirs = (
        {key: results[f"rounds/{name}:{key}"] for key in ("plugin", "local", "loss", "steps")}
        for name in ("step", "ort-training")
    )
    assert theirs["steps"] == ours["steps"] == 4
    assert theirs["loss"] == pytest.approx(ours["loss"], rel=1e-6)
    plugin, local = PACK.plugin_table.initial(0), PACK.table("crnn-base").initial(3)
    assert _distance(theirs["plugin"] - plugin, ours["plugin"] - plugin) < 1e-4
    assert _distance(theirs["local"] - local, ours["local"] - local) < 1e-2  # AdamW at 1e-8: signs, where near 0


def test_it_recognises_like_the_step_runtime(results: dict[str, np.ndarray]) -> None:
    here = StepRuntime(PACK).logits("crnn-lite", PACK.plugin_table.initial(0), _batches()["x"][0])
    assert np.array_equal(results["logits:ort-training"], results["logits:step"])
    assert results["logits:ort-training"] == pytest.approx(here, abs=1e-5)


def test_it_works_without_pytorch_and_auto_leaves_it_aside(facts: dict[str, Any]) -> None:
    assert not facts["torch"]
    assert facts["onnxruntime"] == "1.19.2"
    assert facts["auto"] in ("native", "step"), "native where its library was compiled before"


def test_the_oldest_onnxruntime_that_is_allowed_loads_every_graph(facts: dict[str, Any]) -> None:
    """1.19 joins slices and gathers into splits, and names what it makes after them: these nodes need names."""
    assert facts["unloadable"] == []


def test_what_it_cannot_do_it_says(facts: dict[str, Any]) -> None:
    for said, noun in zip(facts["refusals"], ("distill", "drift", "momentum", "l2"), strict=True):
        assert noun in said and "step" in said


def test_the_artifacts_are_the_same_each_time_and_all_in_the_pack(folder: Path) -> None:
    made, again = (load_pack(folder / f"{name}.tar.zst") for name in ("trained", "again"))
    assert made.identity == again.identity
    assert set(made.manifest.ort_training) == set(PACK.tables)
    assert made.manifest.producers["onnxruntime-training"] == "1.19.2"
    assert made.with_labels(["a", "b"]).manifest.ort_training == {}
