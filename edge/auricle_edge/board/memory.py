"""A small board's memory: one heap from the start, and what the service does not need given back to the system.

After the start, and after a round, half of what is resident is code of libraries that ran once (it lies in files, from
which the kernel maps it again when it is called) and heap that was freed in between. Linux only; elsewhere nothing is
done.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

log = logging.getLogger("auricle.edge")

MADV_DONTNEED = 4
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ ([1-9]\d*) +(/.*)")


@runtime_checkable
class Resting(Protocol):
    """A runtime that can give up what only training needs."""

    def end_training(self) -> None:
        """Until the next job."""


@runtime_checkable
class Frugal(Protocol):
    """A runtime that can hold the memory of one kind of work at a time."""

    frugal: bool


def hold_little(runtime: object) -> None:
    """See that what a runtime holds is what its present work needs: a round has time, and a small board little room."""
    if isinstance(runtime, Frugal):
        runtime.frugal = True


def keep_start() -> None:
    """Collect what the start left over, and never look at the rest again: a collection then stops nobody for long."""
    gc.collect()
    gc.freeze()
    give_back()


def rest(runtime: object) -> None:
    """Give up what only training needs; in the thread that trains."""
    if isinstance(runtime, Resting):
        runtime.end_training()
    give_back()


def give_back() -> None:
    """Return freed heap and the pages of libraries' code to the system; what is called is mapped again, from memory."""
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "malloc_trim"):  # glibc
        library.malloc_trim(0)
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError as error:
        log.info("Memory of libraries is kept: /proc/self/smaps: %s", error)
        return
    for start, end in unwritten(lines):
        library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)


def unwritten(lines: Iterable[str]) -> list[tuple[int, int]]:
    """Address ranges of libraries that cannot be written and hold nothing that was.

    Parameters
    ----------
    lines
        Of `/proc/self/smaps`.

    Returns
    -------
    list
        Start and end of read-only mappings without a page of their own, of files that are mapped as code too: those
        stay where they are until the process ends, so that an address cannot have become something else meanwhile.
    """
    found: list[tuple[str, int, int]] = []
    code: set[str] = set()
    here: tuple[str, int, int] | None = None
    for line in lines:
        mapping = _MAPPING.match(line)
        if mapping:
            start, end, rights, _, path = mapping.groups()
            here = (path, int(start, 16), int(end, 16)) if rights in ("r-xp", "r--p") else None
            code |= {path} if rights == "r-xp" else set()
        elif re.match(r"[0-9a-f]+-", line):
            here = None
        elif here is not None and line.startswith("Anonymous:") and line.split()[1] == "0":
            found.append(here)
    return [(start, end) for path, start, end in found if path in code and not path.endswith("(deleted)")]


TUNING = {-8: 1, -3: 1 << 17, -1: 1 << 20}
"""glibc's M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: one heap, from which what is large and free returns."""
ONCE = {"OPENBLAS_NUM_THREADS": "1"}
"""What libraries read when they are loaded: numpy needs no threads here."""


def be_small() -> None:
    """See that threads share one heap, and that libraries start no threads of their own; before these are loaded."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # glibc
        for name, number in TUNING.items():
            library.mallopt(name, number)
    for variable, value in ONCE.items():
        os.environ.setdefault(variable, value)
