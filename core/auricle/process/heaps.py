"""How the C library hands out memory to a program of many threads: a server's few megabytes stay few."""

from __future__ import annotations

import ctypes
import sys

HEAPS = 2
"""From which all threads take memory; of itself the C library gives each thread its own, up to eight a core."""
APART_BYTES = 256 * 1024
"""Bytes from which on memory is taken from the system, and given back to it, piece by piece."""
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
"""Of `mallopt`, in glibc's `malloc.h`."""


def share_heaps() -> bool:
    """Have the threads to come share a few heaps, and give large pieces back; whether this system's C library can.

    Each heap keeps what was once taken at the same time, so that many of them grow for hours, and glibc raises the size
    of what it takes apart with the largest piece that was ever given back. Call it before threads are started.
    """
    mallopt = _of_glibc("mallopt")
    return mallopt is not None and bool(mallopt(_ARENA_MAX, HEAPS)) and bool(mallopt(_MMAP_THRESHOLD, APART_BYTES))


def give_back() -> bool:
    """Give the system whole pages that are free inside the heaps; whether there were any.

    Of itself the C library gives back what is free at a heap's end: a small piece that lives long keeps all below it.
    """
    trim = _of_glibc("malloc_trim")
    return trim is not None and bool(trim(0))


def _of_glibc(name: str) -> ctypes._NamedFuncPointer | None:
    """A function that glibc has, musl and other systems have not."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
