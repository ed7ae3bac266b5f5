"""What one engine's process does: it makes rounds, and after each says how long that took and what it used.

Needs nothing but Python and NumPy, so that what a process holds in memory is what its engine needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Facts = dict[str, Any]
ROUNDS = "rounds.jsonl"
TICKS = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process, those that it started, and theirs, as far as they are still there."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{each}/task").glob("*/children"):
                found += map(int, task.read_text().split())
    return found


def used(pids: Sequence[int]) -> float:
    """CPU seconds of processes, with those that they started and saw end."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / TICKS


class Diary:
    """What a process says of its rounds, a line each in the file `rounds.jsonl` of a folder.

    Parameters
    ----------
    spec
        What the process was told: `folder`, and `watched`, the rounds whose models it keeps there.
    """

    def __init__(self, spec: Facts) -> None:
        self._folder, self._watched = Path(spec["folder"]), set(spec["watched"])
        self._began, self._cpu = 0.0, 0.0

    def begin(self, **facts: Any) -> None:
        """Say what the engine is; its first round begins now."""
        self._write({"with": "", **facts})
        self._cpu, self._began = used(family(os.getpid())), time.perf_counter()

    def close(self, number: int, model: NDArray[np.float32], more: Callable[[], Facts] = dict) -> None:
        """Say that a round has ended with a model (P,); the next one begins when this returns.

        Parameters
        ----------
        more
            Gives what else is to be said of the round, and takes none of its time.
        """
        seconds, cpu = time.perf_counter() - self._began, used(family(os.getpid()))
        if number in self._watched:
            np.save(self._folder / f"{number}.npy", model)
        self._write({"round": number, "seconds": seconds, "cpu": cpu - self._cpu, **more()})
        self._cpu, self._began = used(family(os.getpid())), time.perf_counter()

    def _write(self, line: Facts) -> None:
        with (self._folder / ROUNDS).open("a") as file:
            print(json.dumps(line), file=file, flush=True)


def serve(play: Callable[[Facts, Diary], None]) -> None:
    """Make the rounds of what the first argument says, a JSON file, on the cores that it names."""
    spec: Facts = json.loads(Path(sys.argv[1]).read_text())
    os.sched_setaffinity(0, spec["cores"])
    diary = Diary(spec)
    try:
        play(spec, diary)
    except Exception as error:  # noqa: BLE001 - whatever keeps an engine from running is its row in the table
        reason = (str(error).strip().splitlines() or [""])[0]
        print(f"{type(error).__name__}: {reason}"[:300], file=sys.stderr)
        sys.exit(1)


def clips(spec: Facts) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Log-mels (D, N, T, mels) and labels (D, N) of all clients, as files that are mapped into memory."""
    return np.load(spec["features"], mmap_mode="r"), np.load(spec["targets"])
