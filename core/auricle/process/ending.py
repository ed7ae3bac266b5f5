"""How a command says what it does and how it ended: its log, and one sentence with an exit code."""

from __future__ import annotations

import json
import logging
import sys


def begin_log(as_json: bool, *, verbose: bool = False) -> None:
    """Log to standard error: what went wrong, with `verbose` what happens too."""
    level = logging.ERROR if as_json else logging.WARNING
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=level, format=form, datefmt="%Y-%m-%dT%H:%M:%S%z")
    if verbose:
        logging.getLogger("auricle").setLevel(logging.INFO)


def fail(message: str, code: int, as_json: bool) -> int:
    """Say why a command failed; its exit code."""
    if as_json:
        print(json.dumps({"error": message}), flush=True)
    print(f"auricle: {message}", file=sys.stderr)
    return code
