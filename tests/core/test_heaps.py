"""What the C library keeps of memory that is free: whole pages go back to the system."""

from __future__ import annotations

import ctypes
import resource
import sys
from pathlib import Path

import pytest

from auricle.process.heaps import give_back

PIECE, COUNT = 1000, 8_000


def resident() -> int:
    """Bytes that this process has in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another C library")
def test_pages_below_a_piece_that_lives_on_go_back_to_the_system() -> None:
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        pytest.skip("musl gives pages back of itself")
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    pieces = [libc.malloc(PIECE) for _ in range(COUNT)]
    for piece in pieces:
        ctypes.memset(piece, 1, PIECE)
    for piece in pieces[:-1]:
        libc.free(piece)
    before = resident()

    given = give_back()

    assert given
    assert before - resident() > PIECE * COUNT * 0.8
    libc.free(pieces[-1])
