"""Where releases lie, and which of their files devices may fetch; without reading any of them."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = "releases"
"""Inside the coordinator's state folder."""
NAMES = re.compile(r"(\d{1,9}\.)?(root|targets|snapshot)\.json|timestamp\.json")
PART = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")


def exists(folder: Path) -> bool:
    """Whether there is a repository in a folder."""
    return (folder / "metadata" / "timestamp.json").is_file()


def metadata_file(folder: Path, name: str) -> Path | None:
    """The file that devices get under this name; None: there is none."""
    return _there(folder / "metadata" / name) if NAMES.fullmatch(name) else None


def target_file(folder: Path, path: str) -> Path | None:
    """The file that devices get under this path; None: there is none."""
    parts = path.split("/")
    if len(parts) > 5 or not all(PART.fullmatch(part) and ".." not in part for part in parts):
        return None
    return _there(folder.joinpath("targets", *parts))


def _there(path: Path) -> Path | None:
    try:
        return path if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None
