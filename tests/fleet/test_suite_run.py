"""A whole suite: runs in processes beside it, what has ended is not run again, one that is interrupted goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

METHODS = """
[[methods]]
name = "mean"
settings = { preset = "fedavg" }
[[methods]]
name = "median"
settings = { preset = "fedavg", method = "median" }
"""
SMALL = """
about = "Two ways to average."
seeds = [0]
[settings]
words = "yes,no"
devices = 3
unseen = 2
takes = 4
min_clips = 4
rounds = 2
local = "crnn-lite"
[tuning]
setting = "rate"
values = [0.02, 0.1]
seed = 7
rounds = 1
"""


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    files = (str(folder / "mine.toml"), "--out", str(folder / "out"))
    command = [sys.executable, "-m", "auricle", "fleet", "suite", *files, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(folder: Path, *options: str) -> tuple[int, str, str]:
    process = start(folder, *options)
    out, errors = process.communicate(timeout=250)
    return process.returncode, out, errors


def summaries(folder: Path) -> Mapping[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in sorted(folder.glob("out/runs/*/summary.json"))}


def test_a_suite_runs_once_and_leaves_its_tables(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL + METHODS)
    code, out, errors = answer(tmp_path, "--jobs", "2", "--json")
    assert code == 0, errors
    first = json.loads(out)
    made = summaries(tmp_path)
    assert len(made) == 6  # two values for each of two methods, then each once
    told = {name.partition("-s")[0]: json.loads((tmp_path / f"out/runs/{name}.json").read_text()) for name in made}
    tried = {f"{name}-as-it-is-tunes-{rate}": rate for name in ("mean", "median") for rate in (0.02, 0.1)}
    assert told.keys() == {*tried, "mean-as-it-is", "median-as-it-is"}
    assert {name: told[name]["rate"] for name in tried} == tried
    unseen = {e["method"]: e["values"] for e in first["tables"]["entries"] if e["figure"] == "unseen"}
    assert set(unseen) == {"mean", "median"} and all(0 <= values[0] <= 1 for values in unseen.values())
    written = {path.name for path in (tmp_path / "out").iterdir() if path.is_file()}
    assert written == {"suite.html", "results.json", "tables.csv", "tables.md", "tables.tex"}
    assert first == json.loads((tmp_path / "out" / "results.json").read_bytes())
    assert first["tuned"][0]["method"] == "mean" and [rate for rate, _ in first["tuned"][0]["tried"]] == ["0.02", "0.1"]
    figures = ("unseen", "personal", "loss", "precision-recall", "confusion-mean", "confusion-median")
    assert {path.stem for path in tmp_path.glob("out/figures/*.svg")} == {f"{name}-as-it-is" for name in figures}
    code, out, errors = answer(tmp_path, "--json")
    again = json.loads(out)
    assert code == 0 and again["tables"] == first["tables"] and again["tuned"] == first["tuned"], errors
    assert summaries(tmp_path) == made
    code, out, errors = answer(tmp_path, "--seeds", "0,1")
    assert code == 0, errors
    assert len(summaries(tmp_path)) == 8 and made.items() <= summaries(tmp_path).items()
    assert ": beside mean" in out and "2 of 2" not in errors


@pytest.mark.nightly
def test_a_suite_that_is_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL.replace("rounds = 2", "rounds = 8").partition("[tuning]")[0] + METHODS)
    process = start(tmp_path, "--jobs", "1")
    assert process.stdout is not None
    said = next(line for line in process.stdout if line.startswith("rounds: 1 of"))
    assert said.startswith("rounds: 1 of 16")
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=250)
    assert process.returncode == 130, errors
    assert "Interrupted" in out
    code, out, errors = answer(tmp_path, "--jobs", "1")
    assert code == 0, errors
    begun = next(iter(sorted((tmp_path / "out" / "runs").glob("mean-*/metrics.jsonl"))))
    assert [json.loads(line)["round"] for line in begun.read_text().splitlines()] == list(range(1, 9))


@pytest.mark.nightly
def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        SMALL.partition("[tuning]")[0] + METHODS + '[[methods]]\nname = "far"\nsettings = { data = "nowhere" }\n'
    )
    code, out, errors = answer(tmp_path)
    assert code == 1
    failed = out[out.index("Failed: far-as-it-is-s0: ") :]
    assert "nowhere" in failed and "Traceback" not in out + errors
    assert "mean" in out and (tmp_path / "out" / "suite.html").is_file()


@pytest.mark.nightly
def test_a_run_whose_process_is_killed_is_named_and_another_process_makes_the_others(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL.replace("rounds = 2", "rounds = 8").partition("[tuning]")[0] + METHODS)
    process = start(tmp_path, "--jobs", "1")
    assert process.stdout is not None
    next(line for line in process.stdout if line.startswith("rounds: 1 of"))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    out, errors = process.communicate(timeout=250)
    assert process.returncode == 1, errors
    failed = out[out.index("Failed: mean-as-it-is-s0: ") :]
    assert "exit code -9" in failed and "Failed: median" not in out
    code, out, errors = answer(tmp_path, "--jobs", "1")
    assert (code, "Failed" in out) == (0, False), errors
