"""Which disks are not written to, and why."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from auricle.process.checkup import size
from auricle_export.flash.write.disks import OF_EMMC, OPTICAL, Disk

SYSTEM = frozenset({"/", "/boot", "/boot/efi", "/boot/firmware", "/efi", "/etc", "/home", "/opt", "/usr", "/var"})


def homes() -> list[Path]:
    """The user's home, and that of who called sudo."""
    found = [Path.home()]
    with suppress(KeyError):
        found.append(Path(pwd.getpwnam(os.environ.get("SUDO_USER", "")).pw_dir))
    return found


def refusal(disk: Disk, *, needed: int = 0, fixed_allowed: bool = False, homes: Iterable[Path] = ()) -> str | None:
    """Say why a disk is not written to; None: it may be.

    Parameters
    ----------
    needed
        Bytes of the image.
    fixed_allowed
        Disks that are not made to be unplugged will do; one in use never does.
    homes
        Folders whose disk is the system's.
    """
    name = disk.device.rpartition("/")[2]
    if OPTICAL.match(name) or OF_EMMC.match(name) or disk.bus == "virtual":
        return f"{disk.device} is not a disk of its own: name the disk or the card."
    if not disk.size:
        return f"{disk.device} has no medium: put a card in."
    used = _refuse_used(disk, homes)
    if used is not None:
        return used
    if disk.read_only:
        return f"{disk.device} is read-only: move the lock of the card, or take another one."
    if not disk.removable and not fixed_allowed:
        return (
            f"{disk.device} ({disk.model}, {size(disk.size)}) is built in, not a card or a USB disk: "
            f"give --force-fixed if it is the right one."
        )
    if needed > disk.size:
        return f"{disk.device} has {disk.size:,} bytes and the image needs {needed:,}: take a larger one."
    return None


def _refuse_used(disk: Disk, homes: Iterable[Path]) -> str | None:
    """Why a disk that the system uses is refused."""
    system = _system_mounts(disk.mounts, homes)
    if system:
        return f"{disk.device} holds the running system ({', '.join(system)}): it is never written to."
    if disk.swap:
        return f"{disk.device} is in use as swap space: it is not written to."
    if disk.mounts:
        return (
            f"{disk.device} is mounted at {', '.join(disk.mounts)}: unmount it first (umount, or eject in the desktop)."
        )
    if disk.holders:
        return f"{disk.device} is part of {', '.join(disk.holders)} (encryption, LVM, RAID): it is not written to."
    return None


def _system_mounts(mounts: Iterable[str], homes: Iterable[Path]) -> list[str]:
    """Mount points of the system, or that hold somebody's home."""
    above = {str(folder) for home in homes for folder in (home, *home.parents)}
    return [mount for mount in mounts if mount in SYSTEM | above]
