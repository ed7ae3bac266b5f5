"""`auricle fleet run` from the command line: a whole run, its files, bad input, interruption and resumption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.recorder import Record
from tests.system.conftest import Command
from tests.system.full_disk import SmallDisk

MORE = "--rounds 2 --central --central-epochs 2 --method lpa+fedvsa --local mixed --json"
SMALL = ("--words", "yes,no,up,down", "--min-clips", "10", "--unseen", "2", "--devices", "3")


def auricle(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "auricle", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.slow
def test_a_run_on_a_folder_leaves_metrics_summary_model_and_report(speech_folder: Path, tmp_path: Path) -> None:
    broken = speech_folder / "yes" / "zz_nohash_0.flac"
    broken.write_bytes(b"fLaC" + bytes(200))
    out = tmp_path / "run"
    done = auricle("fleet", "run", "--data", speech_folder, *SMALL, *MORE.split(), "--out", out)
    broken.unlink()
    assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in done.stdout.splitlines()]
    assert [line["round"] for line in lines[:-1]] == [1, 2]
    assert [json.loads(t) for t in (out / "metrics.jsonl").read_text().splitlines()] == lines[:-1]
    summary = json.loads((out / "summary.json").read_text())
    assert summary == lines[-1]
    assert (summary["devices"], summary["rounds"], summary["skipped_files"]) == (3, 2, 1)
    assert 0 <= summary["plugin_accuracy_unseen"] <= 1
    assert 0 <= summary["central_accuracy_unseen"] <= 1
    assert summary["bytes_up"] > 2 * 3 * 26_000 * 4
    assert all(line["counted"] == 3 for line in lines[:-1])
    report = (out / "report.html").read_text()
    assert "<svg" in report and "http" not in report.replace("http-equiv", "")
    assert (out / "model.safetensors").stat().st_size > 100_000
    assert (out / "pack.tar.zst").exists()


@pytest.mark.reliability("L3", load="a whole run on the embedded amqtt")
@pytest.mark.slow
def test_a_run_on_the_embedded_broker(speech_folder: Path, tmp_path: Path, record_property: Record) -> None:
    more = ("--rounds", "2", "--broker", "amqtt", "--codec", "float16", "--method", "fedvsa", "--json")
    done = auricle("fleet", "run", "--data", speech_folder, *SMALL, *more, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    counted = [line.get("counted") for line in lines[:-1]]
    record_property("counted", sum(counted))
    assert counted == [3, 3]


@pytest.mark.slow
def test_a_run_with_secure_sums_makes_the_model_of_one_without_and_tells_of_no_device_alone(
    speech_folder: Path, tmp_path: Path
) -> None:
    """Devices with as many clips each; a mean is off by no more than a step of bound / 32767."""
    models = {}
    for name, more in (("open", ()), ("hidden", ("--secure-sum",))):
        given = ("--data", speech_folder, *SMALL, "--rounds", "1", "--method", "fedavg", "--preset", "paper")
        done = auricle("fleet", "run", *given, *more, "--out", tmp_path / name, "--json")
        assert done.returncode == 0, done.stderr
        line = json.loads(done.stdout.splitlines()[0])
        assert (line["state"], line["counted"]) == ("published", 3)
        known = [line["inference_loss"], line["personal_accuracy"], *line["personal"].values()]
        assert {value is None for value in known} == {name == "hidden"}
        models[name] = load_file(tmp_path / name / "model.safetensors")
    assert models["open"].keys() == models["hidden"].keys()
    for name, tensor in models["open"].items():
        assert np.abs(tensor - models["hidden"][name]).max() < 0.5 / 32767, name
    why = auricle("cloud", "rounds", "why", "1", "--state", tmp_path / "hidden" / "state" / "coordinator")
    assert "3 updates" in why.stdout


@pytest.mark.parametrize(
    ("arguments", "noun"), [(("--method", "lap"), '"lpa"'), (("--data", "/no/such/folder"), "exist")]
)
@pytest.mark.slow
def test_bad_input_gets_one_sentence_and_its_exit_code(arguments: tuple[str, ...], noun: str, tmp_path: Path) -> None:
    """All others are in `tests/mistakes/fleet.toml`."""
    done = auricle("fleet", "run", *arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.startswith("auricle: ") and done.stderr.count("\n") == 1 and noun in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize("small_disk", [1], indirect=True)
@pytest.mark.slow
def test_a_full_disk_for_out_is_said_before_the_run(small_disk: SmallDisk) -> None:
    done = auricle("fleet", "run", "--rounds", "1", "--out", small_disk.folder / "run")
    assert done.returncode == 2
    assert "free" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_interrupted_and_resumed(speech_folder: Path, tmp_path: Path, start: Callable[..., Command]) -> None:
    out = str(tmp_path / "run")
    first = start("fleet", "run", "--data", str(speech_folder), *SMALL, "--rounds", "12", "--out", out, "--json")
    first.wait_line(lambda line: line.get("round") == 2)
    first.signal(signal.SIGINT)
    code = first.end()
    refused = auricle("fleet", "run", "--data", speech_folder, *SMALL, "--out", out)
    again = auricle("fleet", "run", "--resume", "--out", out, "--json")
    assert code == 130, first.errors
    stopped = first.lines[-1]
    assert stopped["interrupted"] is True
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    assert again.returncode == 0, again.stderr
    rounds = [json.loads(line)["round"] for line in (Path(out) / "metrics.jsonl").read_text().splitlines()]
    assert rounds == list(range(1, 13))
    assert json.loads((Path(out) / "summary.json").read_text())["rounds"] == 12
