"""A process: what it says on a terminal, the second Ctrl-C, open files, and how it goes on as another."""

from __future__ import annotations

import fcntl
import io
import json
import logging
import os
import pty
import resource
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auricle.process import ending, open_files
from auricle.process.ending import begin_log, fit_to_terminal

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
        lines = fit_to_terminal(TEXT, stderr=True).split("\n")
    assert [line[:8] for line in lines] == ["pi-001 w", "to round", "  pi-002", "  since "]
    assert max(map(len, lines)) <= 24


def test_a_terminal_that_says_no_width_and_a_pipe_get_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(0) as descriptor, os.fdopen(descriptor, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert fit_to_terminal(TEXT) == TEXT
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert fit_to_terminal(TEXT) == TEXT


def test_a_line_goes_to_whatever_standard_error_is_then(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    begin_log(False)
    taken = io.StringIO()  # as a live table does
    monkeypatch.setattr(sys, "stderr", taken)
    logging.getLogger("auricle.cloud").warning("a device is late")
    assert taken.getvalue().endswith(" WARNING auricle.cloud: a device is late\n")


STUBBORN = """
import asyncio
from auricle.process.until_signal import until_signal

async def stubborn():
    print("works", flush=True)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("goes on", flush=True)

asyncio.run(until_signal(stubborn(), lambda: print("asked", flush=True), lambda: print("given back", flush=True)))
"""


def test_a_second_signal_gives_back_and_ends_the_process() -> None:
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() in {"works", "goes on"}:
            process.send_signal(signal.SIGINT)
        said = line.strip()
    assert said == "given back"
    assert process.wait() == 130


@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "lifted"),
    [
        (256, resource.RLIM_INFINITY, 100_000, open_files.WANTED_DESCRIPTORS),
        (256, resource.RLIM_INFINITY, 10_240, 10_240),
        (256, resource.RLIM_INFINITY, 200, 256),
        (256, 4096, 100_000, 4096),
        (20_000, resource.RLIM_INFINITY, 20_000, 20_000),
    ],
    ids=["as wanted", "as macOS allows", "not at all", "as far as the hard limit", "never less"],
)
def test_outside_of_linux_ours_goes_as_far_as_the_system_lets_it(
    soft: int, hard: int, allowed: int, lifted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [(soft, hard)]

    def setrlimit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > allowed:
            raise ValueError("current limit exceeds maximum limit")
        limits.append(wanted)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    monkeypatch.delattr(resource, "prlimit", raising=False)

    assert open_files.raise_open_files(4711) == soft  # another process keeps what it has
    assert open_files.raise_open_files() == lifted
    assert limits[-1] == (lifted, hard)


BEFORE = """
import os, sys
from auricle.process import ending
ending.ours = True
print(os.getpid(), flush=True)
ending.become_module("goes_on", b'{"secret": 1}', "--json")
"""
AFTER = """
import json, os, sys
from auricle.process.ending import read_settings
loaded = "auricle.process.ending" in sys.modules
print(json.dumps([os.getpid(), json.loads(read_settings(sys.argv[1])), sys.argv[2:], loaded]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a process is replaced on Linux only")
def test_the_settings_pass_through_a_file_that_lies_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "goes_on.py").write_text(AFTER)
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    done = subprocess.run([sys.executable, "-c", BEFORE], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert json.loads(second) == [int(first), {"secret": 1}, ["--json"], True]


def test_a_program_that_calls_a_command_is_not_replaced() -> None:
    assert not ending.ours
    ending.become_module("goes_on", b"")
