"""Files that are whole after any power cut: the old one or the new one."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from pathlib import Path

LONGEST_TEXT = 1 << 20


def write_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace a file so that after any power cut it is the old one or the new one."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def make_link(path: Path, target: str) -> bool:
    """Point a link at a target in one step; False when it was right."""
    if path.is_symlink() and str(path.readlink()) == target:
        return False
    beside = path.with_name(f".{path.name}.tmp")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(path)
    sync_folder(path.parent)
    return True


def make_folder(path: Path) -> None:
    """Make a folder and those above it; they survive."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder survive."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_disk(folder: Path) -> None:
    """Write out everything of the file system that a folder is on; OSError when the disk could not take it."""
    done = subprocess.run(["sync", "-f", str(folder)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(errno.EIO, f"the disk did not take what was written: {done.stderr.strip()}", str(folder))


def read_small(path: Path, limit: int = LONGEST_TEXT) -> bytes | None:
    """Content of a regular file that somebody else may have put there; None without one, or it is too long."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        data = file.read(limit + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    return data if 0 < len(data) <= limit else None


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all in it; nothing when it is not there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def refresh(source: Path, target: Path, mode: int = 0o644) -> bool:
    """Make a file the same as another; False when it was."""
    data = source.read_bytes()
    if read_small(target) == data:
        return False
    make_folder(target.parent)
    write_file(target, data, mode)
    return True
