"""The C library on emulated ARM processors: the same programs as here give the same weights, on 64 and on 32 bits."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from auricle_learning.native.library import compiler, library_path
from auricle_learning.native.library import library as compiled
from tests.arm64.armhf import armhf_root
from tests.arm64.board import PYTHON, Board, progress
from tests.arm64.debian import DebianRoot, alone
from tests.arm64.emulation import UnavailableError
from tests.arm64.native_programs import cross_compiled, differences, write_programs

pytest.importorskip("ziglang", reason="ziglang compiles the library for other machines")
pytestmark = [
    pytest.mark.arm64,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler here, for the library of this machine"),
]

HERE = Path(__file__).parent
STEPS = 20
SAME = 1e-6
"""Largest difference of a weight after 20 steps, and of a loss or a logit."""
BITS = {"aarch64": 64, "armv7l": 32}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, and beside them what this machine makes of them with plain vectors and with its widest."""
    folder = tmp_path_factory.mktemp("programs")
    write_programs(folder / "programs.npz", STEPS)
    compiled()
    for level, most in (("plain", 0), ("widest", 2)):
        done = [sys.executable, HERE / "run_programs.py", library_path(), folder / "programs.npz"]
        subprocess.run([*map(str, done), str(folder / f"{level}.npz"), str(most)], check=True, capture_output=True)
    return folder


def _same(root: DebianRoot, python: str, machine: str, programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the programs in a root, and hold what they make to what this machine made."""
    with tempfile.TemporaryDirectory(prefix="auricle-", dir=root.path / "tmp") as name:
        there, inside = Path(name), f"/tmp/{Path(name).name}"
        size = cross_compiled(machine, there).stat().st_size
        for path in (HERE / "run_programs.py", programs / "programs.npz"):
            shutil.copy(path, there)
        files = [f"{inside}/{file}" for file in ("run_programs.py", "step.so", "programs.npz", "made.npz")]
        about = json.loads(root.run(python, *files, "2"))
        shutil.copy(there / "made.npz", programs / f"{machine}.npz")
    made = programs / f"{machine}.npz"
    found = {level: differences(programs / f"{level}.npz", made) for level in ("plain", "widest")}
    with capsys.disabled():
        print(f"\n{about['machine']}, {about['bits']} bits, library of {size:,} bytes: differences, {STEPS} steps")
        for level, rows in found.items():
            print(f"  from {platform.machine()}, {level} vectors:")
            for name, each in rows.items():
                print(f"    {name}: {', '.join(f'{what} {far:.1e}' for what, far in each.items())}")
    assert (about["machine"], about["bits"]) == (machine, BITS[machine])
    for rows in found.values():
        assert max(far for each in rows.values() for far in each.values()) <= SAME


def test_aarch64_gives_the_weights_of_this_machine(
    board: Board, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _same(board.debian, PYTHON, "aarch64", programs, capsys)


@pytest.fixture(scope="module")
def armhf() -> Iterator[DebianRoot]:
    """The 32-bit board."""
    root = armhf_root()
    try:
        with alone(root.folder, progress):
            root.make(progress)
    except UnavailableError as error:
        pytest.skip(f"no armhf root: {error}")
    yield root


def test_armv7_gives_the_weights_of_this_machine(
    armhf: DebianRoot, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _same(armhf, "/usr/bin/python3", "armv7l", programs, capsys)
