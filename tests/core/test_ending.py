"""What a command says fits the terminal that it is said on, and what it logs goes to standard error."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import pty
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from auricle.process.ending import begin_log, fitted

TEXT = "pi-001 was not invited to round 13: it waits.\n  pi-002 is offline since this morning."


@contextmanager
def terminal(columns: int) -> Iterator[int]:
    """A terminal with so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_sentence_breaks_at_its_spaces_alone_and_keeps_its_indent(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(24) as descriptor, os.fdopen(descriptor, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        assert fitted(TEXT, stderr=True).split("\n") == [
            "pi-001 was not invited",
            "to round 13: it waits.",
            "  pi-002 is offline",
            "  since this morning.",
        ]


def test_a_terminal_that_says_no_width_and_a_pipe_get_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(0) as descriptor, os.fdopen(descriptor, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert fitted(TEXT) == TEXT
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert fitted(TEXT) == TEXT


def test_a_line_goes_to_whatever_standard_error_is_then(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    begin_log(False)
    taken = io.StringIO()  # as a live table does
    monkeypatch.setattr(sys, "stderr", taken)

    logging.getLogger("auricle.cloud").warning("a device is late")

    assert taken.getvalue().endswith(" WARNING auricle.cloud: a device is late\n")
