"""An environment with tflite-runtime, the older package that runs `.tflite` and needs NumPy before 2.

It is made once, of the requirements that `pyproject.toml` states, and kept under the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.10")
"""Versions that tflite-runtime and this project both have, the one to use first."""
READY = ".ready"


def requirements() -> list[str]:
    """What the environment holds: the project's own needs and those of the extra."""
    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["tflite-runtime"]]


def tflite_runtime_python() -> Path:
    """The environment's Python; skips the test, saying why, where there can be none."""
    python = next(filter(None, (_working(f"python{version}") for version in PYTHONS)), None)
    if f"{sys.version_info.major}.{sys.version_info.minor}" in PYTHONS:
        python = sys.executable
    if python is None:
        pytest.skip(f"tflite-runtime needs Python {' or '.join(PYTHONS)}, and there is none on the path")
    needs = sorted(requirements())
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    name = hashlib.sha256("\n".join([python, *needs]).encode()).hexdigest()[:12]
    folder = Path(base) / "auricle" / f"tflite-runtime-{name}"
    if not (folder / READY).exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True, capture_output=True)
        installed = subprocess.run(
            [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *needs],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if installed.returncode != 0:
            pytest.skip(f"tflite-runtime cannot be installed: {installed.stderr.strip()[-300:]}")
        (folder / READY).touch()
    return folder / "bin" / "python"


def _working(name: str) -> str | None:
    found = shutil.which(name)
    if found is None or subprocess.run([found, "--version"], capture_output=True, check=False).returncode != 0:
        return None
    return found


def run_there(python: Path, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run that Python on this checkout's sources."""
    sources = os.pathsep.join(str(path) for path in (ROOT, ROOT / "core", ROOT / "edge"))
    return subprocess.run(
        [python, *arguments], capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": sources},
    )  # fmt: skip
