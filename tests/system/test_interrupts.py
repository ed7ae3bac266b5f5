"""Ctrl-C at every tenth of a second while a command begins: one line at most, 130."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.mistakes.judge import RAW

EDGE = "edge run --device kitchen-1 --state state --source file:said.wav?loop=1"
BEGINNING = [0.1 * tenth for tenth in range(1, 81)]
"""Seconds after the start."""
RATE = 16_000
GREETINGS = ("listens to", "compiling")
"""What stands on standard error once a command is at work: a service then ends with 0."""
ENDS = 60.0
"""Seconds in which an interrupted command has ended."""
OTHERS = (
    "fleet run --out out --devices 4 --rounds 1000",
    "fleet plan --measure",
    "cloud serve --fleet home --broker mqtt://127.0.0.1:1 --state state --listen none",
    "export wakeword computer --out computer.pack",
    "export build digits --out packs",
)
EARLY = [0.1 * tenth for tenth in range(1, 9)]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("line", "moments"), [(EDGE, BEGINNING), *((line, EARLY) for line in OTHERS)])
def test_an_interrupt_while_a_command_begins_ends_it_with_a_line(
    line: str, moments: list[float], tmp_path: Path
) -> None:
    assert [said for moment in moments if (said := _interrupted(line, moment, tmp_path)) is not None] == []


def _interrupted(line: str, moment: float, root: Path) -> str | None:
    """What is wrong with the end of a command that Ctrl-C reaches after some seconds; None where nothing is."""
    folder = root / f"{moment:.1f}"
    folder.mkdir()
    soundfile.write(folder / "said.wav", np.zeros(RATE, np.int16), RATE)
    process = subprocess.Popen(
        [sys.executable, "-m", "auricle", *line.split()],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    if process.poll() is not None:
        return f"ended before {moment:.1f} s by itself, with {process.returncode}: {process.communicate()[1]}"
    os.killpg(process.pid, signal.SIGINT)
    try:
        said = process.communicate(timeout=ENDS)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"{moment:.1f} s: still there {ENDS:.0f} s later: {process.communicate()[1]}"
    begun = any(word in said for word in GREETINGS)
    lines = [line for line in said.splitlines() if not begun or line.startswith("auricle: ")]
    right = process.returncode in ((0, 130) if begun else (130,)) and len(lines) <= 1
    return None if right and not RAW.search(said) else f"{moment:.1f} s: {process.returncode}, {said}"
