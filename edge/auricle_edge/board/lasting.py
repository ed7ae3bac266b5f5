"""Does a folder outlive the next start? Not where it lies in memory: a tmpfs, or an overlay that writes to one.

Boards with a read-only root have such a folder without showing it: overlayroot and Raspberry Pi OS's overlay file
system let everything be written, and forget it when the power goes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

IN_MEMORY = ("tmpfs", "ramfs", "rootfs", "zram")
"""File systems whose files end with the system; rootfs is the initial one."""
DEEPEST_OVERLAYS = 8
"""Overlays on overlays that are looked through."""


@dataclass(frozen=True)
class Mount:
    """A line of `/proc/self/mountinfo` (proc(5))."""

    point: Path
    kind: str
    source: str
    options: tuple[str, ...]
    """Of the file system, not of the mount."""


def read_mounts(text: str) -> list[Mount]:
    """The mounts in a mountinfo's text, in its order; lines that are none are left out."""
    found = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if separator and len(fields) >= 6 and len(rest) >= 2:
            options = tuple(rest[2].split(",")) if len(rest) > 2 else ()
            found.append(Mount(Path(_plain(fields[4])), rest[0], _plain(rest[1]), options))
    return found


def why_not_lasting(folder: Path, root: Path = Path("/")) -> str | None:
    """Why what is written to a folder is gone after the next start, for the end of a sentence; None: it is not.

    Parameters
    ----------
    folder
        It, or its nearest parent that is there, is looked at.
    root
        Where `/proc` is looked for. Without it, as on other systems than Linux, nothing is lost.
    """
    try:
        mounts = read_mounts((root / "proc/self/mountinfo").read_text("utf-8", "replace"))
        told = (root / "proc/cmdline").read_text("utf-8", "replace").split()
    except OSError:
        return None
    hidden = any(word == "boot=overlay" or word.startswith("overlayroot=tmpfs") for word in told)
    place = next((each for each in (folder, *folder.absolute().parents) if each.exists()), folder)
    return _why(place.resolve(), mounts, hidden, 0)


def _why(place: Path, mounts: list[Mount], hidden: bool, depth: int) -> str | None:
    """As of `why_not_lasting`; `hidden`: the kernel was told of an overlay whose upper folder cannot be seen."""
    mount = _mount_of(place, mounts)
    if mount is None:
        return None
    if mount.kind in IN_MEMORY or mount.source.startswith("/dev/zram"):
        return f"{mount.point} lies in memory ({mount.kind})"
    if mount.kind != "overlay" or depth >= DEEPEST_OVERLAYS:
        return None
    upper = next((each.removeprefix("upperdir=") for each in mount.options if each.startswith("upperdir=")), None)
    if upper is None:
        return None
    why = _why(Path(upper), [each for each in mounts if each is not mount], hidden, depth + 1)
    if why is None and hidden and mount.point == Path("/"):  # mounted by an initial RAM disk, by a path of its own
        why = "the kernel was started so"
    return None if why is None else f"{mount.point} is an overlay that is written to memory: {why}"


def _mount_of(place: Path, mounts: list[Mount]) -> Mount | None:
    """What a path lies on: the deepest mount, and of those on one place the last."""
    around = [each for each in mounts if each.point == place or each.point in place.parents]
    return max(enumerate(around), key=lambda each: (len(each[1].point.parts), each[0]))[1] if around else None


def _plain(text: str) -> str:
    """Without the octal escapes of mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
