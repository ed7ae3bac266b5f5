"""Statistics of the step benchmark, on numbers whose answer is known."""

from __future__ import annotations

from bench.step_table import Series, report


def _series(*rounds: list[float]) -> Series:
    series = Series()
    for seconds in rounds:
        half = [second / 2 for second in seconds]
        series.add({"seconds": seconds, "cpu": half, "memory": {"peak": 3}})
    return series


def test_a_series_counts_every_step() -> None:
    facts = _series([1.0, 2.0, 3.0], [4.0, 5.0]).facts()

    assert facts["seconds"] == 3.0
    assert facts["cpu_seconds"] == 1.5
    assert facts["busy"] == 0.5
    assert facts["p10"] < 2 < 4 < facts["p90"]


def test_a_peer_that_does_not_run_has_a_row_and_a_reason() -> None:
    facts = {
        **_series([1.0, 2.0]).facts(),
        "share_of_peak": 0.5,
        "with": "onnxruntime",
        "bytes": {"peak": 70e6, "pss": 50e6, "imported": 40e6, "install": 140e6},
    }
    result = {
        "batch": 16,
        "labels": 35,
        "optimizer": "sgd",
        "rounds": 1,
        "steps": 2,
        "load": [0, 0, 0],
        "peak": {"numpy 512": 1e11},
        "scenarios": {
            "s": {
                "title": "CRNN-Lite",
                "flops": 1e6,
                "compared": 5,
                "apart": 0.0,
                "peers": {"ours, bare": facts, "torch.compile": {"failed": "no C++ compiler"}},
            }
        },
    }

    lines = report(result).splitlines()

    assert any(line.split()[:4] == ["torch.compile", "-", "-", "-"] for line in lines)
    assert "  torch.compile: no C++ compiler" in lines
    assert any("Other programs held the core" in line for line in lines)
    assert any(line.split()[:3] == ["ours,", "bare", "1500.000"] and " 50 % " in line for line in lines)
