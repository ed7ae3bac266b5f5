"""An environment with onnxruntime-training, which shares its module's name with onnxruntime and so cannot live in ours.

It is made once, of the requirements that `pyproject.toml` states, and kept under the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("core", "edge", "export")
PYTHONS = ("3.11", "3.10")
"""Versions that onnxruntime-training and this project both have, the one to use first."""
READY = ".ready"


def requirements() -> list[str]:
    """What the environment holds: the project's own needs, those of `edge` but onnxruntime, and the extra's."""
    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    edge = [need for need in extras["edge"] if not need.startswith("onnxruntime")]
    return [*project["dependencies"], *edge, *extras["ort-training"]]


def _interpreter() -> str | None:
    for version in PYTHONS:
        if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
            return sys.executable
        found = shutil.which(f"python{version}")
        if found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    return None


def ort_python() -> Path:
    """The environment's Python; skips the test, saying why, where there can be none."""
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        pytest.skip(f"onnxruntime-training has no wheel for {sys.platform} on {platform.machine()}")
    python = _interpreter()
    if python is None:
        pytest.skip(f"onnxruntime-training needs Python {' or '.join(PYTHONS)}, and there is none on the path")
    needs = sorted(requirements())
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    name = hashlib.sha256("\n".join([python, *needs]).encode()).hexdigest()[:12]
    folder = Path(base) / "auricle" / f"ort-training-{name}"
    if not (folder / READY).exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True, capture_output=True)
        installed = subprocess.run(
            [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *needs],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if installed.returncode != 0:
            pytest.skip(f"onnxruntime-training cannot be installed: {installed.stderr.strip()[-300:]}")
        (folder / READY).touch()
    return folder / "bin" / "python"


def run_there(python: Path, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run that Python on this checkout's sources."""
    paths = os.pathsep.join(str(path) for path in (ROOT, *(ROOT / source for source in SOURCES)))
    return subprocess.run(
        [python, *arguments], capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
