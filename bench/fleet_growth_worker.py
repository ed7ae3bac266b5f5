"""One fleet of `fleet_growth.py`, in a process of its own: runs it, and prints what it took as JSON."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import msgspec

from auricle_fleet.results.result import RoundRow
from auricle_fleet.run import FleetRun
from auricle_fleet.settings.fleet_settings import FleetSettings

PAGE = os.sysconf("SC_PAGE_SIZE")


class AfterRound(msgspec.Struct, frozen=True):
    """What a fleet had taken when a round ended: bytes, and seconds of the processor; `seconds` is the round's."""

    seconds: float
    up: int
    down: int
    cpu: float
    disk: int


class Took(msgspec.Struct, frozen=True):
    """What a whole run took: bytes in memory and on the disk, and open files, at most."""

    seconds: float
    most: int
    files: int
    broker: int
    broker_files: int
    disk: int
    tree: int
    """Bytes of it and of all its processes at the end of a round, shared ones once."""
    rounds: list[AfterRound]


def children() -> list[int]:
    """The processes that this one started, and theirs."""
    found, looked = [], [os.getpid()]
    while looked:
        for task in Path(f"/proc/{looked.pop()}/task").glob("*/children"):
            started = [int(word) for word in task.read_text().split()]
            found += started
            looked += started
    return found


def resident(pid: int) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def tree() -> int:
    """Bytes that this process and those that it started have in memory, shared ones once."""
    found = 0
    for pid in (os.getpid(), *children()):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
            found += 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found


def cpu_of_all() -> float:
    """Seconds of the processor of this process and of those that it started and that live."""
    seconds, tick = time.process_time(), os.sysconf("SC_CLK_TCK")
    for pid in children():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / tick
    return seconds


def most_resident() -> int:
    """Bytes that this process had in memory at most; `ru_maxrss` would count who started it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def on_disk(folder: Path) -> int:
    """Bytes that files take on the disk."""
    return sum(512 * path.stat().st_blocks for path in folder.rglob("*") if path.is_file())


class Watched(FleetRun):
    """A run that looks at itself after each round."""

    def __init__(self, settings: FleetSettings, out: Path) -> None:
        super().__init__(settings, out, on_round=self._look)
        self.rounds: list[AfterRound] = []
        self.files = self.broker = self.broker_files = self.tree = 0

    def _look(self, row: RoundRow) -> None:
        self.files = max(self.files, len(list(Path("/proc/self/fd").iterdir())))
        others = children()
        self.tree = max(self.tree, tree())
        self.broker = max([self.broker, *(resident(pid) for pid in others)])
        self.broker_files = max([self.broker_files, *(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in others)])
        self.rounds.append(AfterRound(row.seconds, row.bytes_up, row.bytes_down, cpu_of_all(), on_disk(self.out)))


def main() -> int:
    """Run the fleet whose settings the first argument gives, in the folder that the second names."""
    settings, out = msgspec.json.decode(sys.argv[1], type=FleetSettings), Path(sys.argv[2])
    run = Watched(settings, out)
    began = time.monotonic()
    run.run()
    seconds = time.monotonic() - began
    rounds, held = run.rounds, on_disk(out)
    took = Took(seconds, most_resident(), run.files, run.broker, run.broker_files, held, run.tree, rounds)
    print(msgspec.json.encode(took).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
