"""The shipped graphs against PyTorch in float64: `docs/parity.md`, and beyond it larger weights and other labels."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# ruff: noqa: E402 - PyTorch may be missing
torch = pytest.importorskip("torch", reason="the reference is PyTorch in float64")
onnx = pytest.importorskip("onnx", reason="the graphs are looked into with onnx")

from bench.parity import row_of, rows
from bench.parity_cases import Case, batches, cases, job
from bench.parity_distances import drift, gradients
from bench.parity_page import page, reasons
from bench.parity_reference import SHIPPED as AUTHORS
from bench.parity_reference import Model
from tests.nightly import nightly_but

from auricle.packs.pack import load_pack
from auricle_export.packs.models import WHEEL_CRNNS
from auricle_learning.runtimes import StepRuntime

TOLERANCE = 1e-5
SHIPPED = load_pack("gsc12")
RUNTIME = StepRuntime(SHIPPED)
WEIGHT = np.array([1, 0.5, 0, 1, 0.25, 1, 1, 0, 0.75, 1, 1, 1, 0.1, 1, 0, 1], np.float32)
"""Of each sample; some are absent, as in a last batch."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """The models are too small for more: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _check(case: Case, runtime: StepRuntime) -> None:
    """At twice PyTorch's initialisation: gates leave their linear range, ReLUs switch, all gradients are sizeable."""
    given = job(case, runtime.pack, bare=True)
    given = replace(given, weights={role: 2 * weights for role, weights in given.weights.items()})
    batch = {**batches(runtime.pack, given.kind, 1)[0], "weight": WEIGHT}

    found = gradients(given, batch, runtime)

    sizes = [np.linalg.norm(tensor) for role in found.exact.values() for tensor in role.values()]
    assert min(sizes) > 1e-4, "a gradient this small proves nothing"
    assert found.ours <= TOLERANCE
    ours, due = found.losses
    assert ours == pytest.approx(due, rel=1e-5)


@pytest.mark.parametrize("architecture", nightly_but(list(WHEEL_CRNNS), ["crnn-lite"]))
@pytest.mark.parametrize("loss", ["supervised", "mutual, T = 1", "alternating, T = 2", "fixmatch", "distill"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.slow
def test_every_step_graph_computes_pytorchs_gradients_and_losses(architecture: str, loss: str, optimizer: str) -> None:
    _check(Case(architecture, loss, optimizer), RUNTIME)


@pytest.mark.parametrize("labels", nightly_but([2, 16, 35, 37, 64, 100], [2, 35]))
@pytest.mark.parametrize("loss", ["mutual, T = 2", "fixmatch", "distill"])
@pytest.mark.slow
def test_no_constant_of_a_graph_depends_on_the_number_of_labels(labels: int, loss: str) -> None:
    """Also at the batch size, the hidden size, the frames, and the count the graph was traced with."""
    pack = SHIPPED.with_labels([f"w{i}" for i in range(labels)])
    _check(Case("crnn-lite", loss, "sgd"), StepRuntime(pack))


@pytest.mark.parametrize(
    ("loss", "optimizer"),
    [
        ("supervised", "adamw"),
        pytest.param("supervised", "sgd", marks=pytest.mark.nightly),
        pytest.param("supervised", "adam, l2", marks=pytest.mark.nightly),
        pytest.param("mutual, T = 1", "sgd", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.slow
def test_fifty_steps_stay_with_pytorchs_optimizer_in_float64(loss: str, optimizer: str) -> None:
    """With momentum, decay and clipping; AdamW divides gradients near zero by themselves, PyTorch's float32 too."""
    model = "crnn-base" if loss.startswith("mutual") else "crnn-lite"
    given = job(Case(model, loss, optimizer), SHIPPED)

    found = drift(given, batches(SHIPPED, given.kind), 50, RUNTIME)

    assert found.moved > 0.02, "weights that hardly moved prove nothing"
    assert found.ours <= 1e-3
    ours, due = found.losses
    assert ours == pytest.approx(due, rel=1e-3)


@pytest.mark.parametrize("architecture", list(WHEEL_CRNNS))
@pytest.mark.parametrize("count", [1, 5, 65])
def test_the_evaluation_graph_is_the_module(architecture: str, count: int) -> None:
    table = SHIPPED.table(architecture)
    flat = 2 * table.initial(4)
    x = np.random.default_rng(count).standard_normal((count, 100, 40)).astype(np.float32)

    ours = RUNTIME.logits(architecture, flat, x), RUNTIME.embeddings(architecture, flat, x)

    with torch.no_grad():
        expected = Model(AUTHORS[architecture], table, flat, torch.float64).run(x)
    for found, due in zip(ours, expected, strict=True):
        assert np.linalg.norm(found - due.numpy()) <= TOLERANCE * np.linalg.norm(due.numpy())


@pytest.mark.parametrize("graph", SHIPPED.manifest.graphs, ids=lambda graph: graph.file)
def test_a_graph_is_standard_onnx_for_old_runtimes(graph: Any) -> None:
    """No operator but ONNX's own, opset at most 21, IR at most 10 (JetPack's onnxruntime), nothing outside the file."""
    model = onnx.load_from_string(SHIPPED.files[graph.file])

    assert [(entry.domain, entry.version <= 21) for entry in model.opset_import] == [("", True)]
    assert model.ir_version <= 10
    assert not model.functions
    assert {node.domain for node in model.graph.node} == {""}
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    assert not any(a.HasField("g") or a.graphs for node in model.graph.node for a in node.attribute)
    assert tuple(value.name for value in model.graph.input) == graph.inputs
    assert tuple(value.name for value in model.graph.output) == graph.outputs
    assert not model.metadata_props
    assert model.producer_name == "auricle"
    assert not any(node.doc_string for node in model.graph.node)


def test_step_graphs_hold_no_scatter_and_little_but_matrix_products() -> None:
    """What was measured to be slow must not come back unseen (DESIGN, section 3)."""
    model = onnx.load_from_string(SHIPPED.files["graphs/crnn-lite.supervised.sgd.onnx"])
    kinds = [node.op_type for node in model.graph.node]
    assert not {"ScatterND", "ScatterElements", "Scatter", "Loop", "Scan", "If"} & set(kinds)
    assert kinds.count("Pad") + kinds.count("Where") <= 4
    assert len(kinds) < 1100


ROOT = Path(__file__).parents[2]
GRADIENT = 1e-5
"""DESIGN, section 3."""


def _stays(case: Case, steps: int, drift: float) -> None:
    row, _, _ = row_of(case, RUNTIME, steps)

    assert row["gradient"] <= GRADIENT
    assert row["drift"] <= drift
    assert row["moved"] > 1e-3, "weights that hardly moved prove nothing"


@pytest.mark.parametrize("case", cases("crnn-lite"), ids=lambda case: case.name)
@pytest.mark.slow
@pytest.mark.nightly
def test_crnn_lite_computes_pytorchs_gradients_and_stays_with_it_for_three_steps(case: Case) -> None:
    _stays(case, 3, 1e-4)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("model", sorted(set(WHEEL_CRNNS) - {"crnn-lite"}))
@pytest.mark.nightly
def test_every_model_computes_pytorchs_gradients_and_stays_with_it(model: str) -> None:
    for case in cases(model):
        _stays(case, 10, 1e-3)


@pytest.mark.slow
def test_rows_that_are_known_are_not_computed_again(tmp_path: Path) -> None:
    """And a runtime that is not there is a reason in the row."""

    class Absent:
        def prepare(self, model: str, wanted: list[Case], steps: int) -> None:
            self.wanted = wanted

        def row(self, *_: Any) -> dict[str, str]:
            return {"ort": "no such Python"}

    ort: Any = Absent()
    first = next(rows(RUNTIME.pack, ["crnn-lite"], 1, ort, {}))
    changed = {**first, "gradient": 0.5}
    again = next(rows(RUNTIME.pack, ["crnn-lite"], 1, ort, {first["key"]: changed}))

    assert len(ort.wanted) == len(cases("crnn-lite")) - 1
    assert again == changed
    assert reasons([first]) == ["all 1 rows: no such Python"]
    assert "| crnn-lite | supervised | sgd |" in page([first], "python bench/parity.py")


def test_the_page_says_how_near_the_library_is_beside_onnxruntime() -> None:
    shared = {
        "model": "m",
        "loss": "supervised",
        "optimizer": "sgd",
        "steps": 1,
        "gradient_float32": 4e-7,
        "ort": "none",
    }
    drifts = {"drift": 1e-5, "drift_float32": 1e-5, "moved": 1.0}
    near = {**shared, **drifts, "gradient": 4e-7, "native_gradient": 2e-7, "native_drift": 4e-6}
    far = {**shared, **drifts, "gradient": 4e-7, "native_gradient": 5e-7, "native_drift": 2e-5}
    without = {**shared, **drifts, "gradient": 4e-7, "native": "no compiler"}

    said = " ".join(page([near, far, without], "python bench/parity.py").split())

    assert "in the 2 rows that have both: its gradient is as near to float64 or nearer in 1, 1.25 times" in said
    assert "in 1 it is as near as that of PyTorch's float32" in said
    assert "less than half of that of `step` in 1 rows, more than twice in 0, and between the two in 1." in said
    assert reasons([without], "native") == ["all 1 rows: no compiler"]


@pytest.mark.slow
def test_the_command_prints_json(tmp_path: Path) -> None:
    out = tmp_path / "parity.md"
    options = "--models crnn-lite --steps 1 --no-ort-training --loss distill --json --out"
    command = [sys.executable, ROOT / "bench" / "parity.py", *options.split(), out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["optimizer"] for row in found] == ["sgd", "adamw", "adam, l2"]
    assert all(row["gradient"] <= GRADIENT and row["ort"] == "left out" for row in found)
    assert "--loss=distill" in out.read_text()
