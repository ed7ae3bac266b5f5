"""Where releases lie, who may change them, and which of their files devices may fetch; without reading any of them."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

from auricle.files import open_lock

FOLDER = "releases"
"""Inside the coordinator's state folder."""
NAMES = re.compile(r"(\d{1,9}\.)?(root|targets|snapshot)\.json|timestamp\.json")
Offline = Literal["root", "targets"]
"""Roles whose keys lie elsewhere."""
OFFLINE: tuple[Offline, ...] = get_args(Offline)
PART = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
ONLINE = "online.key"
"""The key of snapshot and timestamp."""
NEXT = "next.key"
"""The one that takes its place once a root says so."""
PENDING = "pending"
"""Folder of metadata that wait for signatures."""
PENDING_FILES = ("root.json", "targets.json")
RESTORED = "restored"
"""A file that says that devices may have seen newer metadata than what is here."""


def exists(folder: Path) -> bool:
    """Whether there is a repository in a folder."""
    return (folder / "metadata" / "timestamp.json").is_file()


@contextmanager
def alone(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """One process at a time changes or copies a repository: whether this one may; closing the file ends it."""
    with open_lock(folder / "lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def metadata_file(folder: Path, name: str) -> Path | None:
    """The file that devices get under this name; None without one."""
    return _there(folder / "metadata" / name) if NAMES.fullmatch(name) else None


def pending_file(folder: Path, name: str) -> Path | None:
    """The metadata that wait for signatures under this name; None without any."""
    return _there(folder / PENDING / name) if name in PENDING_FILES else None


def target_file(folder: Path, path: str) -> Path | None:
    """The file that devices get under this path; None without one."""
    return _there(folder / "targets" / path) if is_target(path) else None


def is_target(path: str) -> bool:
    """Whether a file below `targets` may have this path."""
    parts = path.split("/")
    return len(parts) <= 5 and all(PART.fullmatch(part) and ".." not in part for part in parts)


def _there(path: Path) -> Path | None:
    try:
        return path if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None
