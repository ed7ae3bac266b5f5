"""Ctrl-C twice: the first ends the work, the second the process, which gives the terminal back before."""

from __future__ import annotations

import signal
import subprocess
import sys

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
