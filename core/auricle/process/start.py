"""Where a command begins: from the first import on, Ctrl-C ends it with a word and 130, whatever is being imported."""

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


def entry() -> None:
    """Entry point of the console script."""
    end_at_once()
    from auricle.process import cli, ending

    ending.ours = True
    code = cli.main()
    end_at_once()  # nothing is left to put in order
    sys.exit(code)
