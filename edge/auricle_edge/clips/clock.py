"""The device's clock may be wrong for hours after a start: what it says is believed when it has gone on steadily."""

from __future__ import annotations

from dataclasses import dataclass

from auricle_edge.clips.record import Record

SANE = 1_735_689_600.0
"""2025-01-01: a clock that is behind it was never set."""
JUMP = 86_400.0
"""Seconds: more than that between two looks, or back by a minute, is a jump (or the device was off)."""
STEADY = 3_600.0
"""Seconds without a jump after which clips may be deleted for their age."""


@dataclass(frozen=True)
class Clock:
    """What the store has seen of the clock."""

    seen: float
    """`time.time()` when it last looked."""
    since: float
    """Since when it goes on without a jump."""

    def looked(self, now: float) -> Clock:
        """The next look."""
        jumped = now < self.seen - 60 or now - self.seen > JUMP
        return Clock(now, now if jumped else self.since)

    @property
    def steady(self) -> bool:
        """Whether ages may be believed."""
        return self.seen > SANE and self.seen - self.since >= STEADY


def misdated(record: Record, now: float) -> bool:
    """Whether a clip was dated by a clock that was wrong: before 2025, or in the future."""
    return now > SANE and not SANE <= record.created <= now + JUMP
