"""How a command says what it does and how it ended, or goes on as a service in the same process."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import textwrap
from collections.abc import Sequence

NARROW_COLUMNS = 20
"""Columns that a sentence gets at least."""


class _ToStandardError(logging.Handler):
    """Writes to what `sys.stderr` is at that moment: a live table takes it over, and lines beside it would break it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except (OSError, ValueError, RecursionError):
            self.handleError(record)


def begin_log(as_json: bool, *, verbose: bool = False) -> None:
    """Log to standard error: what went wrong, with `verbose` what happens too."""
    level = logging.ERROR if as_json else logging.WARNING
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=level, format=form, datefmt="%Y-%m-%dT%H:%M:%S%z", handlers=[_ToStandardError()])
    if verbose:
        logging.getLogger("auricle").setLevel(logging.INFO)


def fail(message: str, code: int, as_json: bool) -> int:
    """Say why a command failed; its exit code."""
    if as_json:
        print(json.dumps({"error": message}), flush=True)
    print(f"auricle: {message}", file=sys.stderr)
    return code


def fit_to_terminal(text: str, *, stderr: bool = False) -> str:
    """Sentences for the terminal they are printed on: no word is broken, and each line keeps the indent of its first.

    As they are where nobody looks.

    Parameters
    ----------
    text
        One line or several.
    stderr
        Whether it is for standard error.
    """
    stream = sys.stderr if stderr else sys.stdout
    width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    if not width:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip(" "))]
        room = max(NARROW_COLUMNS, width - len(indent))
        lines += [
            indent + part
            for part in textwrap.wrap(line.strip(" "), room, break_long_words=False, break_on_hyphens=False)
        ] or [""]
    return "\n".join(lines)


def at_terminal() -> bool:
    """Whether a person reads standard output; not so where it goes to a file, a program or nowhere."""
    return sys.stdout is not None and sys.stdout.isatty()


ours = False
"""Whether this process was started to be a command; not so where a program calls one."""


def become_module(module: str, settings: bytes, *arguments: str) -> None:
    """Replace what this process runs by `python -m MODULE DESCRIPTOR ARGUMENTS`; its id, files and environment stay.

    Returns where that cannot be, so that the caller goes on as it is.

    Parameters
    ----------
    module
        Reads the settings from the file that the descriptor names.
    settings
        They may hold secrets, and stand neither on the command line nor on a disk.
    """
    if not (ours and sys.platform.startswith("linux")):
        return
    descriptor = os.memfd_create("settings", 0)
    os.set_inheritable(descriptor, True)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(settings)
    os.lseek(descriptor, 0, os.SEEK_SET)
    sys.stdout.flush()
    sys.stderr.flush()
    python = (sys.executable, *_flags(), *_without_columns())
    if hasattr(signal, "pthread_sigmask"):  # Ctrl-C waits until the next program can say a word: `end_at_once`
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.execv(sys.executable, [*python, "-m", module, str(descriptor), *arguments])


def read_settings(argument: str) -> bytes:
    """The settings that `become_module` passed on."""
    with os.fdopen(int(argument), "rb") as file:
        return file.read()


def _flags() -> Sequence[str]:
    """Never import from the working directory, as the command does not; nor from where this interpreter does not."""
    if sys.flags.isolated:
        return ("-I",)
    return ("-P",) if sys.version_info >= (3, 11) else ()


def _without_columns() -> Sequence[str]:
    """A traceback of a service says lines, not columns: those would stay in memory for every line of every module."""
    return ("-X", "no_debug_ranges") if sys.version_info >= (3, 11) else ()
