"""The bench of GPUs runs without one, compares what it computes, and says plainly where there is none."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from bench.gpu import RULES, Found, Row, main, report  # noqa: E402 - it needs PyTorch


def test_on_the_cpu_it_runs_and_both_sides_have_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cpu", "--small", "--seconds", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    whats = [row["what"] for row in found["rows"]]
    assert whats == [*(f"rule {name}" for name in RULES), "step crnn-lite", "judging, onnxruntime"]
    assert all(row["difference"] <= 1e-9 for row in found["rows"] if row["what"][:4] == "rule")
    assert found["left_out"] == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_measures_nothing_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    told = capsys.readouterr()
    assert told.out == "" and "no CUDA GPU" in told.err


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_on_a_gpu_both_sides_have_the_same_numbers() -> None:
    assert main(["--small", "--seconds", "0"]) == 0


def test_other_numbers_than_the_cpus_are_told() -> None:
    rows = [Row("rule lpa", "5 x 10", 0.002, 0.001, 0.5, 1e-6, 1 << 20), Row("a", "b", 1.0, 1.0, 0.0, 1e-6)]
    found = Found("2", "a CPU", "a GPU", [*rows, Row("c", "d", 1.0, 1.0, float("nan"), 1e-6)], ["e: why"])
    assert [row.what for row in found.differing] == ["rule lpa", "c"]
    text = report(found)
    assert "2.00" in text and "5.0e-01 !" in text and "1 MiB" in text and "left out: e: why" in text
