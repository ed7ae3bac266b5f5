"""`pytest --record FILE`: what marked tests came to, of which `tools/reliability_page.py` makes its page.

A record is of a test with all its parameters: date, tree, the highest load at which a case began, seconds of all cases,
and the figures that they gave to `record_property`. A run with AURICLE_FULL_SIZE lies beside the one without, under
`full`. A test that was skipped says why, and takes no run's place.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Record = Callable[[str, object], None]
"""The fixture `record_property`: a figure of this test by its name."""
MARK = "reliability"
PAGES = ("docs/reliability.json", "docs/reliability.md")
"""What recording writes, which makes no other tree."""


@dataclass
class Run:
    """A test's cases, in this session."""

    load: float = 0.0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    """Cases by the reason for which they were skipped."""
    figures: dict[str, list[object]] = field(default_factory=dict)
    """One value a case that gave one."""

    def add(self, report: pytest.TestReport, told: Mapping[str, object]) -> None:
        """Take in a case, with what it gave to `record_property`."""
        self.load = max(self.load, float(str(told[MARK])))
        self.seconds += report.duration
        self.outcomes[report.outcome] += 1
        if report.skipped:
            reason = report.longrepr[-1] if isinstance(report.longrepr, tuple | list) else report.longrepr
            self.skipped[str(reason).removeprefix("Skipped: ")] += 1
        for name, value in told.items():
            if name != MARK:
                self.figures.setdefault(name, []).append(value)

    def record(self, tree: str) -> dict[str, Any]:
        """As it is written."""
        failed, passed = self.outcomes["failed"], self.outcomes["passed"]
        outcome = "failed" if failed else "passed" if passed else f"skipped: {', '.join(self.skipped)}"
        about = {"date": datetime.date.today().isoformat(), "tree": tree, "load": round(self.load, 1)}
        ran = {"cores": os.cpu_count(), "outcome": outcome, "cases": failed + passed, "seconds": round(self.seconds, 1)}
        figures = {name: of_cases(values) for name, values in self.figures.items()}
        return {**about, **ran, **({"skipped": dict(self.skipped)} if self.skipped else {}), "figures": figures}


def of_cases(values: Sequence[object]) -> object:
    """A figure of one case as it is; of several, numbers as their range and sum, and words once each."""
    if len(values) == 1:
        return values[0]
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values):
        return {"least": min(numbers), "most": max(numbers), "sum": round(sum(numbers), 3)}
    return ", ".join(dict.fromkeys(map(str, values)))


def merged(before: Mapping[str, Any], now: Mapping[str, Any], *, full: bool) -> dict[str, Any]:
    """The record of a test once it ran again, at full size or not: the other size stays, and a run beats a skip."""
    other = {name: value for name, value in before.items() if (name == "full") != full}
    old = before.get("full", {}) if full else {name: value for name, value in before.items() if name != "full"}
    kept = old if old and _skipped(now) and not _skipped(old) else now
    return {**other, "full": kept} if full else {**kept, **other}


def _skipped(record: Mapping[str, Any]) -> bool:
    return str(record.get("outcome", "")).startswith("skipped")


def tree_of(folder: Path) -> str:
    """The commit of a checkout, with `+` where files differ from it; `-` where there is none."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()
        besides = [f":(exclude){page}" for page in PAGES]
        same = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ".", *besides], cwd=folder, check=False)
    except (OSError, subprocess.CalledProcessError):
        return "-"
    return commit if same.returncode == 0 else f"{commit}+"


class Recorder:
    """The hooks. Cases of other processes are known by their reports."""

    def __init__(self, file: Path | None, folder: Path) -> None:
        self._file, self._runs = file and file.absolute(), dict[str, Run]()
        self._tree = tree_of(folder) if file else "-"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """A marked test says so in its reports, with the load of the last minute before it."""
        if self._file and item.get_closest_marker(MARK) is not None:
            item.user_properties.append((MARK, os.getloadavg()[0]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in what a marked test came to."""
        told = dict(report.user_properties)
        if MARK in told and (report.when == "call" or report.failed or report.skipped):
            self._runs.setdefault(report.nodeid.partition("[")[0], Run()).add(report, told)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write what was run over what the file has; tests that did not run keep theirs."""
        if self._file is None or hasattr(session.config, "workerinput") or not self._runs:
            return
        with self._file.open("a+") as file:  # several sessions may record into one file
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            kept = json.loads(file.read() or "{}")
            for name, run in self._runs.items():
                record = run.record(self._tree)
                kept[name] = merged(kept.get(name, {}), record, full="AURICLE_FULL_SIZE" in os.environ)
            file.truncate(0)
            file.write(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
