"""What a process takes over time: memory, files, threads, and the disk of its state."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    at: float  # seconds of the monotonic clock
    pid: int
    mb: float  # resident and its own: what it has of files is shared, and its share grows where others end
    files: int
    threads: int
    disk_mb: float  # of the folder of its state


def sample(pid: int, folder: Path) -> Sample | None:
    """How a process is now; None where it has ended."""
    place = Path(f"/proc/{pid}")
    try:
        rollup = (place / "smaps_rollup").read_text().splitlines()
        own = next(line for line in rollup if line.startswith("Anonymous:"))
        files, threads = len(list((place / "fd").iterdir())), len(list((place / "task").iterdir()))
    except (FileNotFoundError, ProcessLookupError, StopIteration):
        return None
    return Sample(time.monotonic(), pid, int(own.split()[1]) / 1000, files, threads, disk(folder) / 1e6)


def disk(folder: Path) -> int:
    """Bytes of a file, or of all files in a folder; what goes while it is looked at counts as gone."""
    total = 0
    for path in (folder, *folder.rglob("*")):
        try:
            total += path.stat().st_blocks * 512 if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def slope(samples: Sequence[Sample]) -> float:
    """MB an hour by which memory grows: the line through the samples with the least squares."""
    times = [each.at / 3600 for each in samples]
    return statistics.linear_regression(times, [each.mb for each in samples]).slope


def growth(held: Sequence[tuple[int, int]]) -> float:
    """Bytes by which each round makes grow what is held: the line through the later three quarters of the rounds."""
    warm = [each for each in held if each[0] >= held[0][0] + (held[-1][0] - held[0][0]) / 4]
    return statistics.linear_regression([each[0] for each in warm], [each[1] for each in warm]).slope
