"""Looks at the reports once a minute: figures for Prometheus, and what is too old is forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable

from auricle_cloud.observing.hearing_figures import HearingFigures
from auricle_cloud.states.hearing_comparison import compare
from auricle_cloud.storage.hearing_records import DAY, Hearing

EVERY = 60.0
"""Seconds between looks."""
BASELINE = 7 * DAY
"""Time before the last day that the last day is compared with."""


class HearingWatch:
    """Watches over what one coordinator's devices report.

    Parameters
    ----------
    hearing
        The reports.
    figures
        Shown to Prometheus.
    keep
        Seconds for which reports are kept.
    clock, now
        Seconds that never go back, and seconds since 1970.
    """

    def __init__(
        self,
        hearing: Hearing,
        figures: HearingFigures,
        keep: float,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._hearing, self._figures, self._keep, self._clock, self._now = hearing, figures, keep, clock, now
        self._looked = -EVERY

    def look(self) -> None:
        """Show the figures of the last day, and whether they are worse than those of the week before."""
        if self._clock() - self._looked < EVERY:
            return
        self._looked, now = self._clock(), self._now()
        self._hearing.trim(now - self._keep)
        today = self._hearing.totals(now - DAY)
        before = self._hearing.totals(now - DAY - BASELINE, now - DAY)
        self._figures.show(today, compare([t.heard for t in today], [t.heard for t in before]))
