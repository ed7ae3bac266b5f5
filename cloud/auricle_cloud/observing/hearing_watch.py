"""Looks at the reports of hearing once a minute: figures for Prometheus, and what is too old is forgotten.

The figures are of the fleet and of labels, never of a single device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Gauge

from auricle_cloud.observing.hearing_summary import TROUBLES, shared_labels, together, troubles
from auricle_cloud.states.hearing_comparison import Comparison, compare
from auricle_cloud.storage.hearing_records import Hearing
from auricle_cloud.storage.hearing_rows import DAY_SECONDS, HearingTotal

MOST_LABELS = 20
"""Labels that have figures of their own: those of most devices."""
ALL = "all"
"""Stands for every device; a label that is called like it has no figures of its own."""
LEAST_HOURS = 24.0
"""Of each side, before the last day is called worse than the week before."""
EVERY_SECONDS = 60.0
"""Seconds between looks."""
BASELINE = 7 * DAY_SECONDS
"""Time before the last day that the last day is compared with."""


class HearingFigures:
    """Gauges of one coordinator.

    Parameters
    ----------
    registry
        Where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(f"auricle_hearing_{name}", about, list(labels), registry=registry)

        self._devices = gauge("devices", "Devices that have reported in the last day.", "label")
        self._hours = gauge("hours", "Hours of sound they have reported in the last day.", "label")
        self._events = gauge("events_per_hour", "What they have reported an hour, of the last day.", "label", "kind")
        self._level = gauge("level_dbfs", "Mean level of their sound, dB of full scale.", "label")
        self._troubles = gauge("troubled_devices", "Devices whose microphone has a trouble.", "trouble")
        self._before = gauge("complaints_per_hour_before", "Denied and missed an hour in the week before the last day.")
        self._worse = gauge(
            "worse", "1 while the last day has significantly more complaints an hour than the week before."
        )
        self.show([], None)

    def show(self, today: Sequence[HearingTotal], compared: Comparison | None) -> None:
        """Set them from what the devices have reported in the last day."""
        for each in (self._devices, self._hours, self._events, self._level):
            each.clear()
        own = [(label, members) for label, members in shared_labels(today).items() if label != ALL]
        for label, members in [(ALL, list(today)), *own[:MOST_LABELS]]:
            self._show_label(label, together(members), len(members))
        for trouble in TROUBLES:
            self._troubles.labels(trouble).set(sum(trouble in troubles(total) for total in today))
        self._before.set(0 if compared is None else compared.before.an_hour)
        self._worse.set(compared is not None and compared.is_worse and not compared.lacks(LEAST_HOURS))

    def _show_label(self, label: str, total: HearingTotal, devices: int) -> None:
        self._devices.labels(label).set(devices)
        self._hours.labels(label).set(total.hours)
        counts = {
            "detections": total.detections,
            "denied": total.denied,
            "missed": total.missed,
            "complaints": total.complaints,
        }
        for kind, count in counts.items():
            self._events.labels(label, kind).set(count / total.hours if total.hours else 0)
        if total.level is not None:
            self._level.labels(label).set(total.level)


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
        self._looked = -EVERY_SECONDS

    def look(self) -> None:
        """Show the figures of the last day, and whether they are worse than those of the week before."""
        if self._clock() - self._looked < EVERY_SECONDS:
            return
        self._looked, now = self._clock(), self._now()
        self._hearing.trim(now - self._keep)
        today = self._hearing.totals(now - DAY_SECONDS)
        before = self._hearing.totals(now - DAY_SECONDS - BASELINE, now - DAY_SECONDS)
        self._figures.show(today, compare([t.heard for t in today], [t.heard for t in before]))
