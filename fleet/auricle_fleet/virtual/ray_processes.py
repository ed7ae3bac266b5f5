"""Ray's processes, and one that stays behind to end them where Ray ends the process that began them.

Ray's client ends its process, without a word and past every handler, where the node or the head is gone that it speaks
to. So this file is also a program of its own, which Python alone runs: it reads from its standard input, says so where
that ends before a last word, and kills what Ray left of the same group of processes.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ENDED = "Ray ended this run, or it was killed: begin the cluster again, and go on with --resume."
_LAST_WORD = b"."
_RAYS = re.compile(rb"^ray::|/ray/(core|_private|dashboard|autoscaler)/")
"""In the commands of its processes."""


def ray_processes() -> Iterator[int]:
    """Ray's processes among those that this one, or its children, began; none where there is no /proc."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(folder.name)] = int(parent)
    for process in parents:
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() != process and is_rays(process):
            yield process


def is_rays(process: int, part: bytes = b"") -> bool:
    """Whether a process is one of Ray's, with this part of a name in its command."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return _RAYS.search(command) is not None and part in command


class RayWatcher:
    """The process that stays behind.

    Parameters
    ----------
    stderr
        Descriptor to which it says that this process ended.
    """

    def __init__(self, stderr: int) -> None:
        command = [sys.executable, "-I", __file__, str(os.getpgrp())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr)

    def end(self) -> None:
        """Nothing is to be watched any more."""
        with contextlib.suppress(OSError):
            self._process.communicate(_LAST_WORD)


def _main(group: int) -> None:
    """Wait for the end of the process that began this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.stdin.buffer.read() == _LAST_WORD:
        return
    print(f"auricle: {ENDED}", file=sys.stderr, flush=True)
    left = []
    for folder in Path("/proc").glob("[0-9]*"):
        process = int(folder.name)
        with contextlib.suppress(OSError):
            if os.getpgid(process) == group and is_rays(process) and os.getpgid(_above(process)) != group:
                left.append(process)
    for process in left:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)


def _above(process: int) -> int:
    """Who has begun a process, or has it since that one ended, past those of Ray; OSError where it is gone."""
    while is_rays(process):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


if __name__ == "__main__":
    _main(int(sys.argv[1]))
