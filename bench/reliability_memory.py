"""What the processes of a server hold over rounds: memory, open files, threads."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.flower_processes import resident
from bench.reliability_fleets import Watched
from bench.step_process import Failed, say

WARM = 20
"""Rounds after which growth is measured."""
FEWEST = 8
"""Rounds after these that a slope is told of."""


@dataclass(frozen=True)
class Held:
    """What a server holds after a round; MB of 10^6 bytes."""

    round: int
    seconds: float
    """Since the run was asked for."""
    rss: float
    pss: float
    main: float
    """RSS of the process that keeps the database, or the jobs; the others may end with a run."""
    files: int
    threads: int


def rss_of(pids: Iterable[int]) -> float:
    """Resident set size of processes together, MB; one that has ended holds nothing."""
    return sum(_status(pid, "VmRSS") for pid in pids) * 1024 / 1e6


def threads_of(pids: Iterable[int]) -> int:
    """Threads of processes together."""
    return sum(_status(pid, "Threads") for pid in pids)


def files_of(pids: Iterable[int]) -> int:
    """Open files and sockets of processes together."""
    return sum(_count(Path(f"/proc/{pid}/fd")) for pid in pids)


def _status(pid: int, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)


def _count(folder: Path) -> int:
    try:
        return len(list(folder.iterdir()))
    except OSError:
        return 0


def slope(samples: Sequence[Held]) -> float:
    """kB (10^3 bytes) by which RSS grows a round, by least squares."""
    return 1000 * statistics.linear_regression([each.round for each in samples], [each.rss for each in samples]).slope


async def memory(fleet: Watched, rounds: int, minutes: float) -> dict[str, Any]:
    """What a server holds over rounds, as many as there is time for.

    Raises
    ------
    Failed
        It made too few for a slope.
    """
    say(f"{fleet.name}: up to {rounds} rounds for memory")
    fleet.hold()
    began = time.monotonic()
    await fleet.begin(rounds + 1)
    samples: list[Held] = []
    while (seconds := time.monotonic() - began) < 60 * minutes and (not samples or samples[-1].round < rounds):
        done = fleet.done()
        if done > (samples[-1].round if samples else 0):
            pids = fleet.server()
            sizes = (rss_of(pids), resident(pids), rss_of(fleet.main_server()))
            samples.append(Held(done, seconds, *sizes, files_of(pids), threads_of(pids)))
        await asyncio.sleep(0.1)
    warm = [each for each in samples if each.round >= WARM]
    if len(warm) < FEWEST:
        raise Failed(f"{samples[-1].round if samples else 0} rounds in {minutes:g} minutes")
    half = [each for each in samples if 2 * each.round >= samples[-1].round]
    return {
        "rounds": samples[-1].round,
        "seconds": samples[-1].seconds,
        "warm": asdict(warm[0]),
        "last": asdict(samples[-1]),
        "slope": slope(warm),
        "slope_half": slope(half),
    }
