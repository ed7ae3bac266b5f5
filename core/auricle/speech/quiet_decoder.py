"""Keeps what a decoder written in C says on standard error from the terminal; what others write there comes out.

libsndfile's decoder of MP3 prints its thoughts about single frames, and takes no option that forbids it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from typing import BinaryIO

_SAYS = (b"libmpg123", b"Warning: Xing stream size off", b"Warning: Encountered more data after")
"""What the decoder's lines hold."""
_STDERR = 2
_lock = threading.Lock()
_inside = 0
_kept: tuple[int, BinaryIO] | None = None


@contextlib.contextmanager
def quiet_decoder() -> Iterator[None]:
    """While this lasts, in however many threads at once, lines of the decoder are kept from standard error.

    Other lines that the process writes meanwhile come out when the last of the threads leaves.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _kept
    with _lock:
        _inside += 1
        if _inside == 1:
            with contextlib.suppress(OSError):  # no standard error, or no folder for it: nothing is kept
                file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed by who leaves last
                _kept = os.dup(_STDERR), file
                os.dup2(file.fileno(), _STDERR)


def _leave() -> None:
    global _inside, _kept
    with _lock:
        _inside -= 1
        if _inside or _kept is None:
            return
        terminal, file = _kept
        os.dup2(terminal, _STDERR)
        _kept = None
        with file, contextlib.suppress(OSError):
            file.seek(0)
            rest = b"".join(line for line in file if not any(words in line for words in _SAYS))
            while rest:
                rest = rest[os.write(terminal, rest) :]
        os.close(terminal)
