"""Ctrl-C while a command begins: a word, and 130."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = (
    "import os, signal, sys; sys.argv = ['auricle', *sys.argv[1:]]\n"
    "from auricle.process import interrupt\n"
    "interrupt.end_at_once()\n"
    "os.kill(os.getpid(), signal.SIGINT)\n"
    "print('went on')\n"
)


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_an_interrupt_while_modules_are_imported_ends_with_a_word(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, "auricle: Interrupted.\n")
    assert done.stdout == ('{"error": "Interrupted."}\n' if arguments else "")


def test_an_interrupt_that_came_before_waits_for_the_word() -> None:
    held = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {{{int(signal.SIGINT)}}})\n" + PROGRAM.replace(
        "interrupt.end_at_once()\nos.kill(os.getpid(), signal.SIGINT)",
        "os.kill(os.getpid(), signal.SIGINT)\ninterrupt.end_at_once()",
    )
    done = subprocess.run([sys.executable, "-c", held], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "")
