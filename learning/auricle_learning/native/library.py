"""The C library of the runtime: the one that the wheel brings, else compiled on this machine once, kept in a folder."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from auricle.errors import AuricleError, because
from auricle.files import cache_folder
from auricle_learning.native.compiling import FLAGS, HERE, LEVELS, SOURCES, X86_LEVELS, commands, shipped

log = logging.getLogger("auricle.edge")

COMPILERS = ("cc", "gcc", "clang")
LONGEST_SECONDS = 300.0
"""Seconds that a compiler may take."""
FORMAT_VERSION = 3
"""Of programs, as in `step.h`."""
_BATCHES = (
    *(ctypes.c_int64, ctypes.c_void_p),
    *(ctypes.c_void_p, ctypes.c_int64) * 2,
    *(ctypes.c_void_p, ctypes.c_void_p),
)
"""What `step_batches` takes beside a program and its arena."""
SUMS = {
    "sums_weighted": "annnaananaai",
    "sums_deviations": "annnnnaai",
    "sums_spread": "annnaaanaaaai",
    "sums_products": "annnanannanani",
    "sums_halves": "anaaai",
}
"""What functions of `sums_core.c` take: addresses, numbers of 64 bits, an integer."""
_TYPES = {"a": ctypes.c_void_p, "n": ctypes.c_int64, "i": ctypes.c_int32}
_LOADED: dict[Path, Library] = {}
_UNLOADABLE: dict[Path, str] = {}
"""What was brought and cannot be used here, with the reason."""
_LOCK = threading.Lock()


class Library:
    """The functions of the compiled library."""

    def __init__(self, path: Path) -> None:
        try:
            functions = ctypes.CDLL(str(path))
            functions.step_format.restype = functions.step_pad.restype = functions.step_level.restype = ctypes.c_int32
            functions.step_load.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)
            functions.step_load.restype = ctypes.c_void_p
            functions.step_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
            functions.step_run.restype = ctypes.c_int32
            functions.step_batches.argtypes = (*functions.step_run.argtypes, *_BATCHES)
            functions.step_batches.restype = ctypes.c_int64
            functions.step_free.argtypes = (ctypes.c_void_p,)
            functions.step_free.restype = None
            functions.clips_augment.restype = ctypes.c_int32
            for name, given in SUMS.items():
                function = getattr(functions, name)
                function.argtypes, function.restype = [_TYPES[kind] for kind in given], ctypes.c_int32
        except (OSError, AttributeError) as error:
            raise AuricleError(
                f"The library of the runtime native, {path}, does not load: delete it, and see that programs may run "
                "from its disk (noexec)."
            ) from error
        if functions.step_format() != FORMAT_VERSION:
            raise AuricleError(f"The library of the runtime native, {path}, is of another version: delete it.")
        self.functions = functions
        self.pad: int = functions.step_pad()
        self.level: str = LEVELS[functions.step_level()]


def library() -> Library:
    """The library of this machine: what the wheel brings, else compiled where that was not done yet (some seconds).

    Raises
    ------
    AuricleError
        There is no compiler, it fails, or the folder is not this user's alone.
    """
    if (brought := brought_library()) is not None:
        return brought
    with _LOCK:
        path = library_path()
        if path not in _LOADED:
            if not path.is_file():  # a pipe in its place would be waited for
                _compile(path)
            refuse_foreign(path)
            _LOADED[path] = Library(path)
        return _LOADED[path]


def brought_library() -> Library | None:
    """The library that the wheel brought for this machine; None where it did not, or where it does not load here."""
    path = shipped(platform.machine())
    with _LOCK:
        if path not in _LOADED and path not in _UNLOADABLE and path.is_file():
            try:
                if platform.libc_ver()[0] != "glibc":
                    raise AuricleError(f"{path} is for Linux with glibc, which this system has not.")
                _LOADED[path] = Library(path)
            except AuricleError as reason:
                _UNLOADABLE[path] = str(reason)
                log.info("%s", reason)
        return _LOADED.get(path)


def found_library() -> Library | None:
    """The library as far as it is there already, brought or compiled; None where it is not, nothing is compiled."""
    if (brought := brought_library()) is not None:
        return brought
    try:
        return library() if library_path().is_file() else None
    except AuricleError as reason:
        log.info("%s", reason)
        return None


def why_not_brought() -> str:
    """Why `brought_library` gave none, in a sentence."""
    found = _UNLOADABLE.get(shipped(platform.machine()))
    return found or f"This installation brings no library of the runtime native for {platform.machine()}."


def compiler() -> str | None:
    """The C compiler that would be used: `$CC`, or the first of the usual names that is there."""
    return next(
        (found for name in (os.environ.get("CC", ""), *COMPILERS) if name and (found := shutil.which(name))), None
    )


def library_path() -> Path:
    """Where the library of this source and kind of processor is, or will be: also after the compiler is gone."""
    digest = hashlib.sha256("\n".join([platform.machine(), sys.platform, *FLAGS, str(X86_LEVELS)]).encode())
    for name in SOURCES:
        digest.update((HERE / name).read_bytes())
    return native_folder() / f"step-{digest.hexdigest()[:20]}.so"


def native_folder() -> Path:
    """Where what is made once on this machine is kept: the library and the plans of graphs."""
    base = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]  # of a systemd service, which sees no home
    return (Path(base) if Path(base).is_absolute() else cache_folder()) / "native"


def refuse_foreign(path: Path) -> None:
    """Only what this user alone can have put there is loaded; AuricleError, or OSError where it is not there."""
    for place in (path, path.parent):
        about = place.lstat()
        if about.st_uid not in (os.getuid(), 0) or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or place.is_symlink():
            raise AuricleError(f"{place} can be changed by others, so what is in it is not loaded: delete it.")


def _compile(path: Path) -> None:
    found = compiler()
    if found is None:
        raise AuricleError(
            "The runtime native needs a C compiler, and none is installed: install gcc (on Debian: apt install gcc "
            "libc6-dev), or choose --runtime step."
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="compiling-", dir=path.parent) as name:
            made = compile_library(found, Path(name))
            made.chmod(0o700)
            made.replace(path)
    except OSError as error:
        raise AuricleError(f"The library of the runtime native cannot be written to {path.parent}: {error}.") from error


def compile_library(found: str, folder: Path, extra: tuple[str, ...] = ()) -> Path:
    """Compile the library into a folder, with further flags; AuricleError when the compiler fails."""
    kernels, link = commands((found,), platform.machine(), folder, extra)
    with ThreadPoolExecutor(len(kernels)) as pool:
        list(pool.map(_call, kernels))
    _call(link)
    return folder / "step.so"


def _call(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise AuricleError(f"{command[0]} cannot be run for the runtime native: {because(error)}.") from error
    except subprocess.TimeoutExpired:
        raise AuricleError(
            f"{command[0]} takes longer than {LONGEST_SECONDS:.0f} seconds for the runtime native."
        ) from None
    if done.returncode != 0:
        said = next((line for line in done.stderr.splitlines() if "error" in line), "it does not say why")
        raise AuricleError(f"{command[0]} cannot compile the runtime native ({said.strip()}): choose --runtime step.")
