"""From seconds of steps to a table: medians, spread, ratios round by round."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.comparison_table import table, times

QUIET = 0.95
"""Least CPU time by wall time of a measurement that had its core to itself."""


@dataclass
class Series:
    """What one process was seen to do: seconds of every step, round by round."""

    wall: list[list[float]] = field(default_factory=list)
    cpu: list[list[float]] = field(default_factory=list)
    memory: Mapping[str, int] = field(default_factory=dict)

    def add(self, block: Mapping[str, Any]) -> None:
        """Take in a block of steps."""
        self.wall.append(block["seconds"])
        self.cpu.append(block["cpu"])
        self.memory = block["memory"]

    def facts(self) -> dict[str, float]:
        """Seconds of a step: median and percentiles by the clock, median of CPU time; and CPU time by wall time."""
        tenths = statistics.quantiles(_all(self.wall), n=10)
        return {
            "seconds": statistics.median(_all(self.wall)),
            "p10": tenths[0],
            "p90": tenths[-1],
            "cpu_seconds": statistics.median(_all(self.cpu)),
            "busy": sum(_all(self.cpu)) / sum(_all(self.wall)),
        }


def _all(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [second for seconds in rounds for second in seconds]


HEADER = (
    "",
    "ms/step",
    "p10-p90",
    "x ours (range)",
    "CPU ms",
    "x ours (range)",
    "of peak",
    "peak RSS",
    "PSS",
    "imported",
    "install",
    "CPU/wall",
)


def row_of(name: str, facts: Mapping[str, Any]) -> list[str]:
    """A peer's row of the table."""
    if "failed" in facts:
        return [name, *["-"] * (len(HEADER) - 1)]
    mega = [facts["bytes"][key] / 1e6 for key in ("peak", "pss", "imported", "install")]
    return [
        name,
        f"{1e3 * facts['seconds']:.3f}",
        f"{1e3 * facts['p10']:.2f}-{1e3 * facts['p90']:.2f}",
        _ratio(facts.get("ratio")),
        f"{1e3 * facts['cpu_seconds']:.3f}",
        _ratio(facts.get("cpu_ratio")),
        f"{100 * facts['share_of_peak']:.0f} %",
        *(f"{value:.0f}" for value in mega),
        f"{100 * facts['busy']:.0f} %",
    ]


def _ratio(by: Mapping[str, float] | None) -> str:
    return times(by) if by else "1"


def report(result: Mapping[str, Any]) -> str:
    """All tables of a run, and what is needed to read them."""
    peak = ", ".join(f"{name} {value / 1e9:.1f}" for name, value in result["peak"].items())
    touched = f", {result['touch']} MB written between them" if result["touch"] else ""
    lines = [
        f"batch {result['batch']}, {result['labels']} labels, {result['optimizer']}, one thread, pinned to one core, "
        f"{result['rounds']} interleaved rounds of {result['steps']} steps{touched}; load {result['load']}",
        f"float32 peak of one core, GFLOP/s: {peak}; memory and installation in MB",
    ]
    busy = [f["busy"] for s in result["scenarios"].values() for f in s["peers"].values() if "busy" in f]
    if busy and min(busy) < QUIET:
        lines.append("Other programs held the core for part of the time: go by the columns of CPU time.")
    for scenario in result["scenarios"].values():
        rows = [row_of(name, facts) for name, facts in scenario["peers"].items()]
        lines += ["", f"{scenario['title']}: {scenario['flops'] / 1e6:.1f} MFLOP a step", table(HEADER, rows)]
        for name, facts in scenario["peers"].items():
            said = facts.get("failed") or "; ".join(filter(None, (facts.get("with"), facts.get("note"))))
            lines.append(f"  {name}: {said}")
        lines.append(f"  losses of the first {scenario['compared']} steps differ by at most {scenario['apart']:.1e}")
    return "\n".join(lines)
