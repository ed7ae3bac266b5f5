"""A folder with exactly the wheels of a lock: pip fetches what is missing, everything is checked by its SHA-256."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe, read_kept
from auricle_export.flash.bundle.locks import Locked, Target, WheelError, read_lock

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many are done, and how many there are."""

_OFFLINE = (
    r"NewConnectionError|connection broken|NameResolutionError|ConnectTimeoutError|ProxyError|Max retries exceeded"
)
_BEGINS = re.compile(r"(?:Collecting |Processing (?:\S*/)?)(\w+(?:[.-][a-zA-Z_]\w*)*)")
"""What pip says of each wheel, from an index and from a folder."""


class UnreachableError(WheelError):
    """The package index cannot be reached."""


def cache_folder(name: str) -> Path:
    """A folder for what is kept between runs, outside the checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "auricle" / name


def wheelhouse(target: Target, folder: Path | None = None) -> Path:
    """Where the wheels of a target's lock are kept: in a folder, or in the user's cache."""
    return (folder or cache_folder("wheels")) / target.name


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def fetch(target: Target, folder: Path, progress: Progress = silent) -> dict[str, Path]:
    """Bring exactly the wheels of a target's lock into a folder, by hash; downloads only when one is missing.

    Parameters
    ----------
    target
        Whose lock.
    folder
        The wheelhouse; other wheels are removed from it.

    Raises
    ------
    WheelError
        The index does not have these files, or, as an `UnreachableError`, it cannot be reached.
    """
    locked = read_lock(target.lock)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        wheels = wheels_of(folder, locked)
        for path in set(folder.glob("*.whl")) - set(wheels.values()):
            path.unlink()
        if len(wheels) < len(locked):
            _download(target, len(locked), folder, progress)
            wheels = wheels_of(folder, locked)
        if len(wheels) < len(locked):
            raise WheelError(f"The wheels of {', '.join(sorted(set(locked) - set(wheels)))} could not be fetched.")
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    return wheels


def wheels_of(folder: Path, locked: Mapping[str, Locked]) -> dict[str, Path]:
    """The wheels in a folder that are exactly those of a lock, by name; others are passed over."""
    hashes = {line.sha256: line.name for line in locked.values()}
    found = {hashlib.sha256(read_kept(path)).hexdigest(): path for path in sorted(folder.glob("*.whl"))}
    return {hashes[sha256]: path for sha256, path in found.items() if sha256 in hashes}


def pip(*arguments: str, heard: Callable[[str], None] | None = None) -> str:
    """Run this Python's pip; its standard output.

    Parameters
    ----------
    heard
        Told each line of the output as it comes.

    Raises
    ------
    UnreachableError
        There is no way to the index.
    WheelError
        It failed otherwise; with its last sentence.
    """
    said: list[str] = []
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", "pip", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            start_new_session=True,
            cwd=tempfile.gettempdir(),
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": ""},
        )
        with process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    said.append(line)
                    if heard is not None:
                        heard(line)
            except BaseException:
                process.terminate()
                raise
        complaints.seek(0)
        if process.returncode:
            raise _refusal(arguments[0], complaints.read())
    return "".join(said)


def _refusal(command: str, complaints: str) -> WheelError:
    if re.search(_OFFLINE, complaints):
        return UnreachableError("pip cannot reach its package index: look at the network, or at pip's configuration.")
    if "No module named pip" in complaints:
        return WheelError(f"{sys.executable} has no pip: run {sys.executable} -m ensurepip.")
    said = [line for line in complaints.splitlines() if line.startswith("ERROR")] or ["it did not say why."]
    return WheelError(f"pip {command} failed: {said[-1].removeprefix('ERROR: ')}")


def _download(target: Target, wheels: int, folder: Path, progress: Progress) -> None:
    """Fetch with pip beside the folder, and move what is whole into it."""
    begun: list[str] = []

    def heard(line: str) -> None:
        found = _BEGINS.match(line)
        if found:
            begun.append(found[1])
            progress(f"fetching {found[1]}", len(begun) - 1, wheels)

    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        pip(
            "download",
            "--progress-bar",
            "off",
            "--no-deps",
            "--require-hashes",
            *target.options,
            "--find-links",
            str(folder),
            "--dest",
            fresh,
            "-r",
            str(target.lock),
            heard=heard,
        )
        for path in Path(fresh).glob("*.whl"):
            path.replace(folder / path.name)
