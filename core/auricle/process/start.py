"""Where a command begins: from the first import on, Ctrl-C ends it with a word and 130, whatever is being imported."""

from __future__ import annotations

import sys

from auricle.process.interrupt import end_at_once


def entry() -> None:
    """Entry point of the console script."""
    end_at_once()
    from auricle.process import cli, ending

    ending.ours = True
    code = cli.main()
    end_at_once()  # nothing is left to put in order
    sys.exit(code)
