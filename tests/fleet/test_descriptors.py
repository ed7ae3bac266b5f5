"""A live run under `ulimit -n`: it lifts the soft limit by itself, and what the hard one forbids it says beforehand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("espeakng_loader")

SMALL = "--words yes,no --takes 3 --min-clips 4 --unseen 2 --local crnn-lite --rounds 1 --broker amqtt --json"


def run_under(limit: str, devices: int, out: Path) -> subprocess.CompletedProcess[str]:
    """The real command in a shell with this limit."""
    told = f"ulimit {limit}; exec {sys.executable} -m auricle fleet run {SMALL} --devices {devices} --out {out}"
    return subprocess.run(["/bin/sh", "-c", told], capture_output=True, text=True, timeout=300)


def test_a_hard_limit_that_is_too_low_is_one_sentence(tmp_path: Path) -> None:
    """40 devices: 59 files of the run or 47 of the broker, and 64 to spare."""
    done = run_under("-n 100", 40, tmp_path / "run")
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    assert "123 files" in done.stderr and "may hold 100 here" in done.stderr and "23 fewer devices" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_soft_limit_is_lifted_for_the_run_and_its_broker(tmp_path: Path) -> None:
    """18 devices take 37 files in the run, and 25 in the broker."""
    done = run_under("-Sn 24", 18, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["counted"] == 18


@pytest.mark.slow
def test_going_on_under_a_lower_limit_is_one_sentence(tmp_path: Path) -> None:
    assert run_under("-n 1024", 18, tmp_path / "run").returncode == 0
    told = f"ulimit -n 40; exec {sys.executable} -m auricle fleet run --resume --rounds 2 --out {tmp_path / 'run'}"
    done = subprocess.run(["/bin/sh", "-c", told], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "may hold 40 here" in done.stderr
