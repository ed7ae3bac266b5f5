"""The guard as boards have it: one file of modules, beside that of the version before, which was one module."""

from __future__ import annotations

import ast
import json
import lzma
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.edge.slots_bundle import Device, guard_of, identity, make_bundle
from tests.edge.slots_guard import device as device
from tests.edge.slots_guard import folder as folder

import auricle_edge.ota.slots as package
from auricle.packs import plain_tar
from auricle_export.flash.bundle.contents import guard_file

BEFORE = lzma.decompress((Path(__file__).parent / "before/slots.py.xz").read_bytes())
"""The guard of version 0.1.0 until November 2026."""
MODULES = [*sorted(Path(package.__path__[0]).glob("*.py")), Path(plain_tar.__file__)]


def run(device: Device, *arguments: object, guard: Path | None = None, python: str = sys.executable) -> dict[str, Any]:
    """Run the device's own guard as its units do; what it says."""
    file = guard or device.home / "slots.py"
    command = [python, "-I", str(file), *map(str, arguments), "--json", "--root", str(device.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env={"PATH": "/usr/bin:/bin"})
    assert done.stderr == "" and done.returncode == 0, done.stderr + done.stdout
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def update(device: Device, new: Path) -> dict[str, Any]:
    """As an updater and the units do it, up to the confirmation."""
    run(device, "stage", new, "--identity", identity(new))
    run(device, "try", "--rollout=r1", "--deadline=300")
    run(device, "starting")
    device.healthy(new)
    return run(device, "check")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_needs_the_standard_library_only_and_imports_at_the_start(module: Path) -> None:
    tree = ast.parse(module.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert all(node in tree.body for node in imports)  # the file may be replaced while it runs
    names = {node.module or "" for node in imports if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    other = {name for name in names if not name.startswith("auricle_edge.ota.slots.")} - {"auricle.packs.plain_tar"}
    assert {name.partition(".")[0] for name in other} <= sys.stdlib_module_names


def test_the_file_is_the_same_bytes_each_time_and_small_enough_to_be_compared() -> None:
    made = guard_of("1.0")
    assert made == guard_of("1.0")
    assert made.startswith(b"#!/usr/bin/python3\n")
    assert len(made) < 1 << 17


@pytest.mark.parametrize("minor", range(10, 14))
def test_every_python_of_a_board_runs_it_under_its_name(device: Device, folder: Path, minor: int) -> None:
    python = shutil.which(f"python3.{minor}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"Python 3.{minor} is not installed")
    guard = folder / "slots.py"
    guard.write_bytes(guard_of("1.0"))
    told = run(device, "status", guard=guard, python=python)
    assert told["said"] == "Nothing is installed." and told["installed"] is False


@pytest.mark.slow
def test_it_installs_is_replaced_while_it_runs_and_removes_itself(device: Device, folder: Path) -> None:
    first, second = make_bundle(folder / "1", "1.0"), make_bundle(folder / "2", "2.0")
    run(device, "install", first, guard=first / "slots.py")
    assert (device.probe(), device.guard()) == ("1.0", "1.0")
    assert "is confirmed" in update(device, second)["said"]
    assert (device.probe(), device.guard()) == ("2.0", "2.0")
    assert "is given up" in run(device, "revert")["said"]
    assert (device.probe(), device.guard()) == ("1.0", "1.0")
    run(device, "uninstall")
    assert device.everything() == set()


@pytest.mark.slow
def test_a_board_of_the_version_before_is_updated_taken_back_and_updated_again(device: Device, folder: Path) -> None:
    old = make_bundle(folder / "old", "1.0", more={"slots.py": BEFORE})
    new = make_bundle(folder / "new", "2.0")
    run(device, "install", old, guard=old / "slots.py")
    assert (device.home / "slots.py").read_bytes() == BEFORE
    for _ in range(2):
        assert "is confirmed" in update(device, new)["said"]
        assert (device.probe(), device.guard()) == ("2.0", "2.0")
        journal = run(device, "status")["journal"]
        assert (journal["active"], journal["previous"], journal["confirmed"]) == ("b", "a", True)
        run(device, "revert", "--reason", "too loud")
        assert (device.probe(), (device.home / "slots.py").read_bytes()) == ("1.0", BEFORE)
        assert run(device, "status")["journal"]["last"]["reason"] == "too loud"


def test_a_trial_that_the_version_before_began_ends_with_its_own_guard(device: Device, folder: Path) -> None:
    old = make_bundle(folder / "old", "1.0", more={"slots.py": BEFORE})
    new = make_bundle(folder / "new", "2.0")
    run(device, "install", old, guard=old / "slots.py")
    run(device, "stage", new, "--identity", identity(new))
    run(device, "try")
    device.boot("second")
    assert "is given up" in run(device, "check")["said"]
    assert (device.probe(), (device.home / "slots.py").read_bytes()) == ("1.0", BEFORE)


def test_one_that_is_replaced_while_it_starts_begins_again_with_the_new_one(folder: Path) -> None:
    moved = b"import os, sys\nos.replace(sys.argv[0] + '.new', sys.argv[0])\nraise ImportError('bad file header')\n"
    package = "auricle_edge/ota/slots"
    old = guard_file({f"{package}/__init__.py": b"", f"{package}/commands.py": moved})
    (folder / "slots.py").write_bytes(old)
    (folder / "slots.py.new").write_bytes(guard_of("1.0"))
    command = [sys.executable, "-I", str(folder / "slots.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "status" in done.stdout
    assert not (folder / "slots.py.new").exists()
