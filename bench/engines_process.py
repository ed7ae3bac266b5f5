"""One engine's process, watched from outside: what it says of its rounds, and the most memory that it has."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.engines_work import WATCHED
from bench.engines_worker import ROUNDS
from bench.flower_processes import Processes, free_ports, resident
from bench.step_process import ROOT, Failed, surroundings

LOOK = 0.25
"""Seconds between two looks at a process."""
QUIET = 300.0
"""Seconds without a closed round after which an engine is given up."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What was seen of one engine in one turn."""

    made_of: str
    seconds: tuple[float, ...]
    """Of each timed round."""
    cpu: float
    """Seconds of all processes in these rounds together."""
    megabytes: float
    """Proportional set size of all processes, at most."""
    models: dict[int, Any]
    """(P,) after each watched round."""
    lines: tuple[dict[str, Any], ...] = ()
    """All that it said of its timed rounds."""


def seen_of(python: Path, module: str, spec: dict[str, Any], cores: Sequence[int]) -> Seen:
    """Run an engine's process to its end.

    Parameters
    ----------
    python
        That of the engine's environment.
    module
        What it runs, such as `bench.engines_pfl`.
    spec
        What it is told.
    cores
        It may use, with all that it starts.

    Raises
    ------
    Failed
        It ended before its last round, or went silent.
    """
    with tempfile.TemporaryDirectory(prefix="auricle-bench-") as place:
        folder = Path(place)
        told = {**spec, "folder": place, "cores": list(cores), "ports": free_ports(len(cores))}
        (folder / "spec.json").write_text(json.dumps(told))
        processes = Processes(folder)
        try:
            ours = python == Path(sys.executable)
            paths = tuple(Path(part).resolve() for part in sys.path if part) if ours else (ROOT / "export",)
            processes.start("engine", [python, "-m", module, folder / "spec.json"], environment_of(folder, paths))
            most = _until_done(processes, folder, spec["rounds"])
            return _seen(folder, most)
        finally:
            processes.end()


def environment_of(folder: Path, paths: tuple[Path, ...]) -> dict[str, str]:
    """One thread a process, temporary files in a folder, nothing reported to anybody; `bench` and `paths` to import."""
    reports = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    places = {"FLWR_HOME": str(folder / "flwr"), "RAY_TMPDIR": str(folder)}
    return {**surroundings(paths), **reports, **places}


def _until_done(processes: Processes, folder: Path, rounds: int) -> float:
    """Wait for the last round; most megabytes meanwhile."""
    most, heard, lines = 0.0, time.monotonic(), 0
    while (found := len(_lines(folder))) <= rounds:
        if found > lines:
            lines, heard = found, time.monotonic()
        if time.monotonic() - heard > QUIET:
            raise Failed(f"it closed no round for {QUIET:.0f} s")
        most = max(most, resident(processes.family("engine")))
        time.sleep(LOOK)
        if not processes.family("engine") and len(_lines(folder)) <= rounds:
            time.sleep(LOOK)  # its exit status comes a little later
            processes.check()
            raise Failed("it ended before its last round")
    return most


def _lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / ROUNDS
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _seen(folder: Path, most: float) -> Seen:
    begun, *closed = _lines(folder)
    timed = closed[max(WATCHED) :]
    return Seen(
        begun["with"],
        tuple(line["seconds"] for line in timed),
        sum(line["cpu"] for line in timed),
        most,
        {number: np.load(folder / f"{number}.npy") for number in WATCHED},
        tuple(timed),
    )
