"""The edge part on an emulated arm64 board: it is there, and its numbers are those of the host."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import auricle
from auricle.packs.pack import load_pack
from auricle_learning.native.library import compiler
from tests.arm64.board import ENVIRONMENT, Board
from tests.arm64.conftest import Shared
from tests.arm64.wheels import read_lock

pytestmark = [pytest.mark.arm64, pytest.mark.timeout(1500)]

HERE = Path(__file__).parent
STEPS = 5
SAME = 1e-6
"""Largest difference of a loss and of logits after one step."""
DRIFT = 1e-4
"""Largest difference after five steps: float32 sums in another order, carried on."""
FACTS = """
import importlib.metadata, json, platform, struct, sys
import auricle_edge.commands
print(json.dumps({
    "machine": platform.machine(), "bits": 8 * struct.calcsize("P"), "python": list(sys.version_info[:2]),
    "versions": {d.name.lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()},
}))
"""


def test_the_edge_part_imports_on_aarch64_from_the_locked_wheels(board: Board) -> None:
    facts = json.loads(board.python("-c", FACTS))

    assert facts["machine"] == "aarch64"
    assert facts["bits"] == 64
    assert facts["python"] == [3, board.target.minor]
    locked = {name: line.version for name, line in read_lock(board.target.lock).items()}
    versions = facts["versions"]
    assert {name: versions.get(name) for name in locked} == locked
    assert set(versions) - set(locked) <= {"auricle", "pip", "setuptools"}
    assert versions["auricle"] == auricle.__version__


def test_the_command_runs_on_the_board(board: Board) -> None:
    assert board.debian.run(f"{ENVIRONMENT}/bin/auricle", "--version").strip() == f"auricle {auricle.__version__}"
    assert "--coordinator" in board.debian.run(f"{ENVIRONMENT}/bin/auricle", "edge", "run", "--help")


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_mutual_step_and_inference_give_the_numbers_of_the_host(
    optimizer: str, board: Board, shared: Shared, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(HERE / "steps.py", shared.path)
    arguments = ("crnn-base", optimizer, str(STEPS))
    host = json.loads(
        subprocess.run(
            [sys.executable, str(HERE / "steps.py"), *arguments, str(shared.path / "host.npz")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )

    there = json.loads(board.python(f"{shared.inside}/steps.py", *arguments, f"{shared.inside}/board.npz"))

    difference = _differences(shared.path / "host.npz", shared.path / "board.npz")
    losses = np.abs(np.array(host["losses"]) - np.array(there["losses"])).max(axis=1)
    with capsys.disabled():
        _print(optimizer, host, there, losses, difference)
    assert there["machine"] == "aarch64" and host["machine"] == platform.machine()
    assert host["pack"] == there["pack"] == load_pack("gsc12").identity
    assert losses[0] <= SAME
    assert difference["logits.local.first"] <= SAME
    assert difference["logits.plugin.first"] <= SAME
    assert difference["features"] <= SAME
    assert losses.max() <= DRIFT
    assert max(difference.values()) <= DRIFT


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler here, for the library of this machine")
def test_the_library_that_the_wheel_brings_trains_as_on_x86_64(
    board: Board, shared: Shared, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ziglang", reason="ziglang is not installed, so the board's wheel has no library")
    shutil.copy(HERE / "native_steps.py", shared.path)
    here = [sys.executable, str(HERE / "native_steps.py"), "native", str(STEPS), str(shared.path / "native-host.npz")]
    subprocess.run(here, capture_output=True, text=True, check=True)
    there = json.loads(
        board.python(f"{shared.inside}/native_steps.py", "auto", str(STEPS), f"{shared.inside}/native-board.npz")
    )
    difference = _differences(shared.path / "native-host.npz", shared.path / "native-board.npz")
    with capsys.disabled():
        print(f"\n{there['reason']} Largest differences after {STEPS} steps: {difference}")
    assert there["machine"] == "aarch64" and there["runtime"] == "native"
    assert difference.pop("start.local") == difference.pop("start.plugin") == 0
    assert max(difference.values()) <= DRIFT


def _differences(one: Path, other: Path) -> dict[str, float]:
    """The largest absolute difference of each array in two files."""
    with np.load(one, allow_pickle=False) as a, np.load(other, allow_pickle=False) as b:
        assert sorted(a.files) == sorted(b.files)
        return {name: float(np.abs(a[name] - b[name]).max()) for name in a.files}


def _print(
    optimizer: str,
    host: dict[str, Any],
    there: dict[str, Any],
    losses: np.ndarray[Any, Any],
    difference: dict[str, float],
) -> None:
    print(f"\ncrnn-base + crnn-lite, mutual, {optimizer}: {host['machine']} and {there['machine']} (qemu-user)")
    for name, side in (("host", host), ("board", there)):
        print(
            f"  {name}: onnxruntime {side['onnxruntime']}, {side['milliseconds']:.1f} ms a step, "
            f"peak RSS {side['peak_megabytes']:.0f} MB"
        )
    print(f"  losses of the first step: {host['losses'][0]} and {there['losses'][0]}")
    print(f"  largest difference of a loss at steps 1 to {len(losses)}: {', '.join(f'{d:.1e}' for d in losses)}")
    print(f"  largest difference of {', '.join(f'{name} {d:.1e}' for name, d in sorted(difference.items()))}")
