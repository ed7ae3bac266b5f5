"""How the C library hands out memory to a program of many threads: a server's few megabytes stay few."""

from __future__ import annotations

import ctypes
import sys

HEAPS = 2
"""From which all threads take memory; of itself the C library gives each thread its own, up to eight a core."""
APART = 256 * 1024
"""Bytes from which on memory is taken from the system, and given back to it, piece by piece."""
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
"""Of `mallopt`, in glibc's `malloc.h`."""


def share_heaps() -> bool:
    """Have the threads to come share a few heaps, and give large pieces back; whether this system's C library can.

    Each heap keeps what was once taken at the same time, so that many of them grow for hours, and glibc raises the size
    of what it takes apart with the largest piece that was ever given back. Call it before threads are started.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it, musl has not
    if mallopt is None:
        return False
    return bool(mallopt(_ARENA_MAX, HEAPS)) and bool(mallopt(_MMAP_THRESHOLD, APART))
