"""Every loss with every optimizer against PyTorch in float64: what the table in `docs/parity.md` claims."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# ruff: noqa: E402 - PyTorch may be missing
torch = pytest.importorskip("torch", reason="the reference is PyTorch in float64")

from bench.parity import row_of, rows
from bench.parity_cases import Case, cases
from bench.parity_page import page, reasons

from auricle.packs.pack import load_pack
from auricle_edge.runtimes import StepRuntime
from auricle_export.packs.models import ARCHITECTURES

ROOT = Path(__file__).parents[2]
RUNTIME = StepRuntime(load_pack("gsc12"))
GRADIENT = 1e-5
"""DESIGN, section 3."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """The models are too small for more: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _check(case: Case, steps: int, drift: float) -> None:
    row, _, _ = row_of(case, RUNTIME, steps)

    assert row["gradient"] <= GRADIENT
    assert row["drift"] <= drift
    assert row["moved"] > 1e-3, "weights that hardly moved prove nothing"


@pytest.mark.parametrize("case", cases("crnn-lite"), ids=lambda case: case.name)
def test_crnn_lite_computes_pytorchs_gradients_and_stays_with_it_for_three_steps(case: Case) -> None:
    _check(case, 3, 1e-4)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("model", sorted(set(ARCHITECTURES) - {"crnn-lite"}))
@pytest.mark.nightly
def test_every_model_computes_pytorchs_gradients_and_stays_with_it(model: str) -> None:
    for case in cases(model):
        _check(case, 10, 1e-3)


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


@pytest.mark.slow
def test_the_command_prints_json(tmp_path: Path) -> None:
    out = tmp_path / "parity.md"
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "bench" / "parity.py",
            "--models",
            "crnn-lite",
            "--steps",
            "1",
            "--no-ort-training",
            "--loss",
            "distill",
            "--json",
            "--out",
            out,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["optimizer"] for row in found] == ["sgd", "adamw", "adam, l2"]
    assert all(row["gradient"] <= GRADIENT and row["ort"] == "left out" for row in found)
    assert "--loss=distill" in out.read_text()
