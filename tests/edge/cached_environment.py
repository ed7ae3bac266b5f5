"""Environments for packages that cannot live in ours: made once, kept under the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.arm64.debian import alone

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.10")
"""Versions that such old packages and this project both have, the one to use first."""
READY = ".ready"


def project() -> dict[str, Any]:
    """The table `project` of `pyproject.toml`."""
    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def _interpreter() -> str | None:
    if f"{sys.version_info.major}.{sys.version_info.minor}" in PYTHONS:
        return sys.executable
    for version in PYTHONS:
        found = shutil.which(f"python{version}")
        if found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    return None


def cached_python(name: str, needs: Sequence[str]) -> Path:
    """Python of an environment that has these requirements; skips the test, saying why, where there can be none."""
    python = _interpreter()
    if python is None:
        pytest.skip(f"{name} needs Python {' or '.join(PYTHONS)}, and there is none on the path")

    def make(folder: Path) -> subprocess.CompletedProcess[str]:
        subprocess.run([python, "-m", "venv", str(folder)], check=True, capture_output=True)
        return _pip(folder / "bin" / "python", *needs)

    return _kept(name, [python, *sorted(needs)], make) / "bin" / "python"


def cached_package(name: str, need: str) -> Path:
    """A folder with this package and nothing that it needs; skips the test, saying why, on another Python."""
    if _interpreter() != sys.executable:
        pytest.skip(f"{name} needs Python {' or '.join(PYTHONS)}, and this is another")

    def make(folder: Path) -> subprocess.CompletedProcess[str]:
        options = ("--no-deps", "--no-compile", "--only-binary=:all:", "--target", str(folder))
        installed = _pip(Path(sys.executable), *options, need)
        assert installed.returncode == 0, installed.stderr
        return installed

    return _kept(name, ["alone", sys.executable, need], make)


def linked_packages(folder: Path, *without: str) -> Path:
    """The packages of this environment, linked into a folder; without those whose names begin so."""
    folder.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(without):
            (folder / path.name).symlink_to(path)
    return folder


def _pip(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _kept(name: str, key: Sequence[str], make: Callable[[Path], subprocess.CompletedProcess[str]]) -> Path:
    """What is made once; it is made again where `key` is another."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    mark = hashlib.sha256("\n".join(key).encode()).hexdigest()[:12]
    folder = Path(base) / "auricle" / f"{name}-{mark}"
    with alone(folder.with_name(f"{folder.name}.lock"), print):
        if not (folder / READY).exists():
            shutil.rmtree(folder, ignore_errors=True)
            installed = make(folder)
            if installed.returncode != 0:
                pytest.skip(f"{name} cannot be installed: {installed.stderr.strip()[-300:]}")
            (folder / READY).touch()
    return folder


def run_there(
    python: Path, *arguments: str | Path, folder: Path, sources: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Run that Python on these of the checkout's sources."""
    paths = os.pathsep.join(str(path) for path in (ROOT, *(ROOT / source for source in sources)))
    return subprocess.run(
        [python, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
    )
