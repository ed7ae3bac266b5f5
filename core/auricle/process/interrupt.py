"""What Ctrl-C does to a command: end it at once while it is imported, raise where something may be put in order."""

from __future__ import annotations

import os
import signal
import sys


def _end(_number: int, _frame: object) -> None:
    if "--json" in sys.argv:
        os.write(1, b'{"error": "Interrupted."}\n')
    os.write(2, b"auricle: Interrupted.\n")
    os._exit(130)


def end_at_once() -> None:
    """Let SIGINT end this process at once, from now on and where it came before; where it is ignored it stays so."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def raise_again() -> None:
    """Let SIGINT raise KeyboardInterrupt again: what begins now may have something to put in order."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
