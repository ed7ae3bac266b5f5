"""A process of a small board: one heap, no threads that nobody asked for."""

from __future__ import annotations

import ctypes
import os

TUNING = {-8: 1, -3: 1 << 20, -1: 2 << 20}
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
