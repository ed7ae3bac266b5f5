"""Where targets write files: a folder in memory that is gone afterwards, whatever ends the processes that use it.

Who opens a folder removes it. A process that is killed cannot: so each folder is locked for as long as a process has
it, and the next one to open a folder removes those that nobody has.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PREFIX = "auricle-fuzz-"
MEMORY = Path("/dev/shm")

_open: list[Path] = []
"""The folders of this process; one that is spawned is told its folder, one that is forked has those of its parent."""
_at_exit = ExitStack()


def _place() -> Path:
    return MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())


@contextmanager
def scratch_folder(place: Path | None = None) -> Iterator[Path]:
    """Have `scratch()` of this process and of those that it forks be a new folder, and remove it at the end.

    Parameters
    ----------
    place
        Where it is made; in memory where that is possible.
    """
    place = place or _place()
    with _locked(place):  # nobody looks between the making of a folder and its lock
        _remove_abandoned(place)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        held = _lock(folder, fcntl.LOCK_EX)
    _open.append(folder)
    try:
        yield folder
    finally:
        _open.remove(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def use(folder: Path) -> None:
    """Have `scratch()` be a folder that another process removes."""
    _open.append(folder)


def scratch() -> Path:
    """The innermost open folder; without one, a folder that is removed when this process ends."""
    if not _open:
        _at_exit.enter_context(scratch_folder())
        atexit.register(_at_exit.close)
    return _open[-1]


def written(data: bytes, name: str = "input") -> Path:
    """A file with this content."""
    path = scratch() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _remove_abandoned(place: Path) -> None:
    """Remove folders whose process has ended without removing them; those of other users stay."""
    for folder in place.glob(f"{PREFIX}*"):
        try:
            held = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    held = _lock(place, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(held)


def _lock(folder: Path, how: int) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
