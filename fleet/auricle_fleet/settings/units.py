"""Shares, sizes and times as a run says them: on a terminal, in its report and on its model card."""

from __future__ import annotations

from auricle.process.times import count_in


def percent(value: float | None) -> str:
    """A share as a percentage, a dash when it is not known."""
    return "-" if value is None else f"{100 * value:.1f} %"


def false_accepts(count: int | None, seconds: float | None, rate: float | None, noun: str = "") -> str:
    """False accepts in so much sound (seconds), or an hour where an earlier version counted nothing else."""
    if count is None or seconds is None:
        return "-" if rate is None else f"{rate:.0f}/h"
    return count_in(count, seconds, noun)


def size(count: float) -> str:
    """Bytes with a unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def duration(seconds: float | None) -> str:
    """Seconds as m:ss."""
    return "-" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
