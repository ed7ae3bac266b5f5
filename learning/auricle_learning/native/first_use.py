"""A runtime's library at its first use on this machine, in a child process: what dies there does not die here.

A wheel that was built for another processor ends a process with a signal, often while it is imported, and no `except`
catches that. So each version is imported and asked for one product in a child; that it lived is noted, and not tried
again until the version, its file or the processor is another.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from auricle.errors import AuricleError, pip_command
from auricle_learning.native import compiling, library

LONGEST_SECONDS = 120.0
"""Seconds that a library may take until it has computed; a compiler takes longer, see `COMPILE_SECONDS`."""
COMPILE_SECONDS = 400.0
PRODUCT = (
    "CAo6UQoRCgF4CgF4EgF5IgZNYXRNdWwKDwoBeRIBeiIHU2lnbW9pZBIBZ1oTCgF4Eg4KDAgBEggKAggQCgIIEGITCgF6Eg4KDAgBEggKAggQCgII"
    "EEIECgAQEg=="
)
"""An ONNX file of 91 bytes: z = sigmoid(x x), x (16, 16) float32."""
ORT_PROGRAM = (
    "import base64, numpy, onnxruntime as ort; session = ort.InferenceSession(base64.b64decode("
    f'{PRODUCT!r}), providers=["CPUExecutionProvider"]); session.run(None, {{"x": numpy.ones((16, 16), "float32")}})'
)


@dataclass(frozen=True)
class Trial:
    """How a runtime's library is tried in a child process."""

    program: str
    """What the child runs: it imports what the runtime imports, and as the runtime does."""
    packages: tuple[str, ...] = ()
    """Distributions that bring the library, the likeliest first; none for our own."""
    module: str | None = None
    """Module of these distributions; None for our own library."""
    instead: str = "native"
    """Runtime to take in its place where it dies."""
    says_why: bool = False
    """Whether its runtime itself says why it cannot be imported."""


TRIALS = {
    "step": Trial(ORT_PROGRAM, ("onnxruntime", "onnxruntime-gpu", "onnxruntime-training"), "onnxruntime"),
    "native": Trial(
        "from auricle_learning.native.self_test import tested_library; tested_library()", instead="step", says_why=True
    ),
}
"""By name of the runtime; `edge/auricle_edge/runtimes/choice.py` adds those of a board."""


class RuntimeDiesError(AuricleError):
    """A runtime's library ends the process that uses it."""


def refuse_dead(name: str) -> None:
    """RuntimeDiesError where the library of a runtime of ours cannot be used on this machine; see `death_of`."""
    said = death_of(name)
    if said is not None:
        raise RuntimeDiesError(said)


def usable() -> bool:
    """Whether onnxruntime is installed, and can be used here."""
    return importlib.util.find_spec("onnxruntime") is not None and death_of("step") is None


def death_of(name: str) -> str | None:
    """What using a runtime's library does to a process, as a sentence; None where it lives, or is nobody of ours.

    Parameters
    ----------
    name
        One of `TRIALS`, and installed; others are not tried.
    """
    return _tried(name, _fingerprint(name), str(_notes())) if name in TRIALS else None


@cache
def _tried(name: str, fingerprint: str, notes: str) -> str | None:
    note = Path(notes) / fingerprint
    if note.is_file():
        return None
    said = _ended(name)
    if said is None:
        with suppress(OSError):  # a disk that takes no note: it is tried again at the next start
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            note.touch()
    return said


def _ended(name: str) -> str | None:
    """How a child ends that uses the library."""
    program = f"import sys, json; sys.path[:] = json.loads(sys.argv[1]); {TRIALS[name].program}"
    limit = COMPILE_SECONDS if name == "native" else LONGEST_SECONDS
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(sys.path)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=limit,
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONFAULTHANDLER": "0"},
        )
    except subprocess.TimeoutExpired:
        return _sentence(name, f"had computed nothing after {limit:.0f} s")
    except OSError:
        return None  # no process can be started: then this one has to try
    if done.returncode < 0:
        return _sentence(name, f"dies of {_signal(-done.returncode)}")
    if done.returncode and not TRIALS[name].says_why:
        last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"])[-1]
        if ours := re.match(r"auricle\S*Error: (.+)", last):
            return ours[1]
        return _sentence(name, f"cannot be used ({last[:200].rstrip('.')})")
    return None


def _signal(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({(signal.strsignal(number) or 'no name').lower()})"
    except ValueError:
        return f"signal {number}"


def _sentence(name: str, what: str) -> str:
    package, version = _installed(name)
    library = f"{package} {version}".strip() if package else f"The library of the runtime native, {_library()},"
    other = f"choose --runtime {TRIALS[name].instead}"
    if package:
        older = re.match(r"\d+\.\d+", version)
        before = f"{package}<{older[0]}" if older else package
        other += f' (runtime = "{TRIALS[name].instead}"), or install another version ({pip_command(before)})'
    return f"{library} {what} on this {platform.machine()} processor: {other}."


def _installed(name: str) -> tuple[str, str]:
    """Distribution and version behind a runtime; two empty words for our own library."""
    packages = TRIALS[name].packages
    if not packages:
        return "", ""
    from importlib import metadata  # a megabyte, which the runtime native needs not

    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            return package, metadata.version(package)
    return packages[0], ""


def _library() -> Path:
    brought = compiling.shipped(platform.machine())
    return brought if brought.is_file() else library.library_path()


def library_is_there() -> bool:
    """Whether the library of the runtime native was brought or compiled, which loads nothing."""
    return _library().is_file()


def _notes() -> Path:
    return library.native_folder().parent / "runtimes"


def _fingerprint(name: str) -> str:
    """Of what was tried: the version, its files, this Python and the processor."""
    module = TRIALS[name].module
    if module is None:
        files = [_library()]
    else:
        spec = importlib.util.find_spec(module)
        folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
        files = [] if folder is None else [folder / "__init__.py", *sorted(folder.glob("capi/*.so"))]
    facts = [name, *_installed(name), sys.version, platform.machine(), _processor()]
    for file in files:
        with suppress(OSError):
            about = file.stat()
            facts.append(f"{file} {about.st_size} {about.st_mtime_ns}")
    return f"{name}-{hashlib.sha256('|'.join(facts).encode()).hexdigest()[:20]}"


@cache
def _processor() -> str:
    """What a disk that is put into another board finds changed."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return platform.processor()
    kept = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "\n".join(sorted({line for line in text.splitlines() if line.startswith(kept)}))
