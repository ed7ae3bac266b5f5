"""What a training's clips cost when there are as many as in Speech Commands: seconds, memory, space on the disk.

A folder of as many clips, most of them links to a few hundred files of noise, is read and its mel energies are
computed, each time in a process of its own: once in memory, once in a file (`Spill`). `anonymous` is memory that the
process alone has and that nothing can take from it; `resident` counts the mapped file's pages too, which the system
takes back when another program needs them.

    python bench/many_clips.py [--clips 105829] [--folder DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import soundfile

from auricle.packs.pack import Task
from auricle.speech.features import LogMel
from auricle.speech.folder import load_folders
from auricle.speech.row_store import Spill
from auricle.speech.speech_set import energy_rows
from bench.comparison_table import table

WORDS = 35
DIFFERENT = 700
"""Files that are really there; the others are links to them."""
SAMPLED = 0.05


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way cost."""

    way: str
    clips: int
    reading_seconds: float
    energies_seconds: float
    anonymous_mb: float
    """Highest."""
    resident_mb: float
    """Highest."""


def make_folder(root: Path, clips: int) -> None:
    """Write a Speech Commands folder of 35 words and so many clips."""
    rng = np.random.default_rng(0)
    for number in range(clips):
        path = root / f"word{number % WORDS}" / f"speaker{number // WORDS % 2_600}_nohash_{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number < DIFFERENT:
            soundfile.write(path, rng.integers(-3_000, 3_000, 16_000).astype(np.int16), 16_000)
        else:
            first = number % DIFFERENT
            os.link(root / f"word{first % WORDS}" / f"speaker{first // WORDS}_nohash_{first}.wav", path)


def measure(root: Path, way: str, scratch: Path) -> Cost:
    """Read the folder and compute the energies in this process."""
    spill = Spill(scratch, above=0) if way == "file" else None
    with _Memory() as memory:
        start = time.monotonic()
        speech = load_folders([root], "common:1", spill=spill)
        read = time.monotonic()
        energies = energy_rows(LogMel(Task(("a", "b"))), speech.audio.__getitem__, np.arange(len(speech)), spill=spill)
        done = time.monotonic()
        if len(energies) != len(speech):
            raise RuntimeError(f"{len(energies)} energies for {len(speech)} clips")
    return Cost(way, len(speech), read - start, done - read, memory.anonymous / 1e6, memory.resident / 1e6)


class _Memory:
    """The highest memory of this process while the block runs, in bytes."""

    def __enter__(self) -> _Memory:
        self.anonymous = self.resident = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLED):
            status = Path("/proc/self/status").read_text(encoding="ascii")
            found = {
                name: 1024.0 * int(size) for name, size in re.findall(r"^(Rss\w+|VmRSS):\s+(\d+) kB", status, re.M)
            }
            self.anonymous = max(self.anonymous, found["RssAnon"])
            self.resident = max(self.resident, found["VmRSS"])


def compare(clips: int, folder: Path) -> list[Cost]:
    """Measure both ways, each in a fresh process."""
    root, scratch = folder / "speech", folder / "scratch"
    make_folder(root, clips)
    costs = []
    for way in ("memory", "file"):
        command = [sys.executable, __file__, "--one", way, "--root", str(root), "--scratch", str(scratch)]
        costs.append(Cost(**json.loads(subprocess.run(command, check=True, capture_output=True).stdout)))
    return costs


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clips", type=int, default=105_829)
    parser.add_argument("--folder", type=Path, help="where the clips and the file go [a temporary folder]")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--one", choices=("memory", "file"), help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(asdict(measure(given.root, given.one, given.scratch))))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        costs = compare(given.clips, Path(folder))
    if given.as_json:
        print(json.dumps([asdict(cost) for cost in costs]))
        return
    rows = [
        [
            *(c.way, f"{c.clips:,}", f"{c.reading_seconds:.0f}", f"{c.energies_seconds:.0f}"),
            *(f"{c.anonymous_mb:,.0f}", f"{c.resident_mb:,.0f}"),
        ]
        for c in costs
    ]
    print(table(["clips in a", "clips", "reading, s", "energies, s", "anonymous, MB", "resident, MB"], rows))


if __name__ == "__main__":
    main()
