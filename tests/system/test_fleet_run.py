"""`auricle fleet run` from the command line: a whole run, its files, bad input, interruption and resumption."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.system.conftest import Command

SMALL = ("--words", "yes,no,up,down", "--min-clips", "10", "--unseen", "2", "--devices", "3")


def auricle(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "auricle", *arguments], capture_output=True, text=True, timeout=110, check=False
    )


def test_a_run_on_a_folder_leaves_metrics_summary_model_and_report(speech_folder: Path, tmp_path: Path) -> None:
    broken = speech_folder / "yes" / "zz_nohash_0.flac"
    broken.write_bytes(b"fLaC" + bytes(200))
    out = tmp_path / "run"

    done = auricle(
        "fleet",
        "run",
        "--data",
        str(speech_folder),
        *SMALL,
        "--rounds",
        "2",
        "--central",
        "--central-epochs",
        "2",
        "--rule",
        "lpa+fedvsa",
        "--local",
        "mixed",
        "--out",
        str(out),
        "--json",
    )
    broken.unlink()

    assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in done.stdout.splitlines()]
    assert [line["round"] for line in lines[:-1]] == [1, 2]
    assert [json.loads(t) for t in (out / "metrics.jsonl").read_text().splitlines()] == lines[:-1]
    summary = json.loads((out / "summary.json").read_text())
    assert summary == lines[-1]
    assert summary["devices"] == 3
    assert summary["rounds"] == 2
    assert summary["skipped_files"] == 1
    assert 0 <= summary["plugin_accuracy_unseen"] <= 1
    assert 0 <= summary["central_accuracy_unseen"] <= 1
    assert summary["bytes_up"] > 2 * 3 * 26_000 * 4
    assert all(line["counted"] == 3 for line in lines[:-1])
    report = (out / "report.html").read_text()
    assert "<svg" in report
    assert "http" not in report.replace("http-equiv", "")
    assert (out / "model.safetensors").stat().st_size > 100_000
    assert (out / "pack.tar.zst").exists()


@pytest.mark.reliability("L3", load="a whole run on the embedded amqtt")
@pytest.mark.slow
def test_a_run_on_the_embedded_broker(speech_folder: Path, tmp_path: Path) -> None:
    done = auricle(
        "fleet",
        "run",
        "--data",
        str(speech_folder),
        *SMALL,
        "--rounds",
        "2",
        "--broker",
        "amqtt",
        "--codec",
        "float16",
        "--rule",
        "fedvsa",
        "--out",
        str(tmp_path / "run"),
        "--json",
    )

    assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in done.stdout.splitlines()]
    assert [line.get("counted") for line in lines[:-1]] == [3, 3]


@pytest.mark.slow
def test_a_run_with_secure_sums_makes_the_model_of_one_without_and_tells_of_no_device_alone(
    speech_folder: Path, tmp_path: Path
) -> None:
    """Devices with as many clips each; a mean is off by no more than a step of bound / 32767."""
    models = {}
    for name, more in (("open", ()), ("hidden", ("--secure-sum",))):
        given = ("--data", str(speech_folder), *SMALL, "--rounds", "1", "--rule", "fedavg", "--preset", "paper")
        done = auricle("fleet", "run", *given, *more, "--out", str(tmp_path / name), "--json")
        assert done.returncode == 0, done.stderr
        line = json.loads(done.stdout.splitlines()[0])
        assert (line["state"], line["counted"]) == ("published", 3)
        known = [line["inference_loss"], line["personal_accuracy"], *line["personal"].values()]
        assert {value is None for value in known} == {name == "hidden"}
        models[name] = load_file(tmp_path / name / "model.safetensors")

    assert models["open"].keys() == models["hidden"].keys()
    for name, tensor in models["open"].items():
        assert np.abs(tensor - models["hidden"][name]).max() < 0.5 / 32767, name
    state = ("--state", str(tmp_path / "hidden" / "state" / "coordinator"))
    assert "A secure sum of 3 updates" in auricle("cloud", "rounds", "why", "1", *state).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--data", "/no/such/folder"), "does not exist"),
        (("--data", "{empty}"), "audio"),
        (("--data", "{speech}", "--words", "yes,no,sheila"), "sheila"),
        (("--data", "{speech}", "--words", "common:9999"), "9999"),
        (("--data", "{speech}", *SMALL[:-1], "40"), "40"),
        (("--rule", "lap"), 'did you mean "lpa"'),
        (("--preset", "papers"), 'did you mean "paper"'),
        (("--local", "crnn-bas"), 'did you mean "crnn-base"'),
        (("--secure-sum", "--rule", "fedavg", "--engine", "virtual"), "--secure-sum needs --engine live"),
        (("--secure-sum",), "needs the rule fedavg"),
        (("--rounds", "0"), "rounds"),
        (("--participation", "1.5"), "participation"),
        (("--data", "{speech}", *SMALL, "--port", "{port}"), "already in use"),
        (("--resume", "--out", "{empty}"), "no run"),
    ],
)
def test_bad_input_gets_one_sentence_and_its_exit_code(
    arguments: tuple[str, ...], says: str, speech_folder: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        values = {"empty": empty, "speech": speech_folder, "port": taken.getsockname()[1]}
        given = [a.format(**values) for a in arguments]
        out = () if "--out" in given else ("--out", str(tmp_path / "out"))

        done = auricle("fleet", "run", *given, *out)

    assert done.returncode == {"already in use": 6, "no run": 5}.get(says, 2), done.stderr
    message = done.stderr.strip()
    assert message.startswith("auricle: ")
    assert len(message.splitlines()) == 1
    assert says in message.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_for_out_is_said_before_the_run(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        done = auricle("fleet", "run", "--rounds", "1", "--out", str(disk / "run"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)

    assert done.returncode == 2
    assert "free" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_interrupted_and_resumed(speech_folder: Path, tmp_path: Path, start: Callable[..., Command]) -> None:
    out = str(tmp_path / "run")
    first = start("fleet", "run", "--data", str(speech_folder), *SMALL, "--rounds", "12", "--out", out, "--json")
    first.wait_line(lambda line: line.get("round") == 2)

    first.signal(signal.SIGINT)
    code = first.end()
    refused = auricle("fleet", "run", "--data", str(speech_folder), *SMALL, "--out", out)
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
