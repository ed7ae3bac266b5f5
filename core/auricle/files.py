"""Files that are whole or absent: written beside, synced, renamed.

Durable is what survives a power cut; without the syncs that this takes, a file still holds the old content or the new
however its program ends, for the system has what was written.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from auricle.errors import StorageError


def write_durably(path: Path, data: bytes, *, mode: int = 0o644, settle: bool = True) -> None:
    """Write a file so that after any crash it holds the old content or the new, never a part; see `write_whole`."""
    write_whole(path, data, durable=True, mode=mode, settle=settle)


def write_whole(path: Path, data: bytes, *, durable: bool, mode: int = 0o644, settle: bool = True) -> None:
    """Write a file so that it holds the old content or the new, never a part, however this program ends.

    Parameters
    ----------
    durable
        Sync it as well, so that a power cut loses no more than the end of the program does.
    settle
        Also sync the folder, so that the new content survives; who writes many files may do so once at the end.

    Raises
    ------
    StorageError
        The disk is full or the folder cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
        if durable and settle:
            sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise StorageError(describe(error, path)) from error


def remove_file(path: Path, *, durable: bool) -> None:
    """Remove a file, where there is one; durably, so that it stays removed after a power cut.

    Raises
    ------
    StorageError
        The folder cannot be written.
    """
    try:
        path.unlink()
        if durable:
            sync_folder(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(describe(error, path)) from error


def sync_folder(folder: Path) -> None:
    """Make a rename or a removal in this folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def be_private() -> None:
    """Let what this process makes from now on be its user's alone: files 0600, folders 0700."""
    os.umask(0o077)


def make_private(*paths: Path) -> None:
    """Take all rights of others from files and folders that exist; those of another user are left as they are."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.chmod(path.stat().st_mode & 0o700)


_WRONG_KIND = {
    errno.EEXIST: "it is a file, and a folder is needed; choose another path",
    errno.ENOTDIR: "what should be a folder on the way to it is a file",
    errno.EISDIR: "it is a folder, and a file is needed; name one",
}


def describe(error: OSError, path: Path) -> str:
    """Say in one sentence why a path could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk that holds {path} is full: free some space or choose another folder."
    if error.errno in _WRONG_KIND:
        return f"{path} cannot be written: {_WRONG_KIND[error.errno]}."
    return f"{path} cannot be written ({error.strerror or error}): check the path and its permissions."


def cache_folder() -> Path:
    """Give `$XDG_CACHE_HOME/auricle`, or `~/.cache/auricle` where that is not set to an absolute path."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "auricle"
