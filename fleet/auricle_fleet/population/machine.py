"""What this machine has for a run: memory, open files, space on the disk, cores."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from auricle.errors import StorageError
from auricle.files import describe
from auricle.process.open_files import raise_open_files

SPARE_FILES = 64
"""Open files that a run may have for a moment besides: files that are read and written."""


class Machine(Struct, frozen=True, kw_only=True):
    """What there is."""

    memory: int | None
    """Bytes that programs could still get, swap counted; None: the system does not say."""
    files: int
    """Files and connections that one process may hold open, once its limit is lifted as far as it goes."""
    disk: int
    """Free bytes where the run's folder will be."""
    cores: int


def too_many_files(files: float, there: int, lighter: str | None) -> str | None:
    """Why a run cannot hold so many files and connections open in one process; None where it can.

    Parameters
    ----------
    files
        Of the process that holds most, without those to spare; each device has one at least.
    there
        How many a process may hold.
    lighter
        The engine to take instead, where there is one.
    """
    most = math.ceil(files) + SPARE_FILES
    if most <= there:
        return None
    instead = f"--engine {lighter}, " if lighter else ""
    return (
        f"This run would hold about {most:,} files and connections open and a process may hold {there:,} here: take "
        f"{instead}{most - there:,} fewer devices, or raise the limit (`ulimit -Hn`)."
    )


def this_machine(out: Path) -> Machine:
    """Look around; the limit of open files is lifted by this.

    Parameters
    ----------
    out
        The run's folder, which need not be there yet.

    Raises
    ------
    StorageError
        Its place is a file, or cannot be looked at.
    """
    try:
        place = next(path for path in (out, *out.absolute().parents) if path.exists())
        if not place.is_dir():
            raise StorageError(f"{place} is a file: choose another --out.")
        disk = shutil.disk_usage(place).free
    except OSError as error:
        raise StorageError(describe(error, out)) from error
    return Machine(memory=free_memory(Path("/")), files=raise_open_files(), disk=disk, cores=os.cpu_count() or 1)


def free_memory(root: Path) -> int | None:
    """Bytes of memory that programs could still get: of the machine, or less where a control group allows less.

    Where the system does not say what is free, all that it has; None where it says nothing.

    Parameters
    ----------
    root
        Below which `proc` and `sys` lie.
    """
    sizes = dict(_rows(root / "proc/meminfo"))
    there = sizes.get("MemAvailable")
    if there is None:
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError):
            return None
    free = there + sizes.get("SwapFree", 0)
    group = root / "sys/fs/cgroup"
    most, used = _number(group / "memory.max"), _number(group / "memory.current")
    return free if most is None or used is None else min(free, max(0, most - used))


def _rows(file: Path) -> Iterator[tuple[str, int]]:
    """Name and bytes of each line of `/proc/meminfo` that gives kilobytes."""
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[0].isdigit():
            yield name, int(words[0]) << 10


def _number(file: Path) -> int | None:
    """The number in a file; None where there is none, or `max`."""
    try:
        word = file.read_text().strip()
    except OSError:
        return None
    return int(word) if word.isdigit() else None
