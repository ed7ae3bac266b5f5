"""What a detector says about itself."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from auricle_edge.sound import RATE, Detection

REMEMBERED = 1_000
"""Detections of which latency and denials are kept."""


@dataclass(frozen=True)
class DetectFigures:
    """Since the detector was made."""

    hours: float
    """Of sound heard."""
    detections: int
    by_word: Mapping[str, int]
    detections_per_hour: float
    denied: int
    """Detections that the user denied."""
    denied_per_hour: float
    """At least so many false accepts an hour: nobody denies all of them."""
    quiet_hours: float
    """Of sound known to hold no keyword."""
    quiet_detections: int
    false_accepts_per_hour: float | None
    """Detections an hour in sound known to hold no keyword; None before there was any."""
    latency_p50: float | None
    """Seconds from the arrival of the word's last sample to the decision, median of the last thousand detections."""
    latency_p95: float | None
    real_time_factor: float
    """CPU seconds of detection a second of sound."""
    windows: int
    """Windows that a model judged."""
    open_share: float
    """Share of the hops in which the gate was open."""


class Tally:
    """Counts for one detector; its caller sees to it that one thread at a time does."""

    def __init__(self) -> None:
        self.samples = self.quiet_samples = 0
        self.hops = self.open_hops = self.windows = 0
        self.cpu = 0.0
        self.quiet = False
        """Whether the sound that comes now is known to hold no keyword."""
        self._words: Counter[str] = Counter()
        self._denied = self._quiet_detections = 0
        self._latencies: deque[float] = deque(maxlen=REMEMBERED)
        self._open: OrderedDict[str, None] = OrderedDict()

    def sound(self, samples: int, cpu: float) -> None:
        """Count sound that was heard, and what it cost."""
        self.samples += samples
        self.quiet_samples += samples if self.quiet else 0
        self.cpu += cpu

    def hop(self, *, open_: bool, judged: bool) -> None:
        """Count a hop."""
        self.hops += 1
        self.open_hops += open_
        self.windows += judged

    def detected(self, detection: Detection) -> None:
        """Count a detection."""
        self._words[detection.word] += 1
        self._quiet_detections += self.quiet
        self._latencies.append(detection.latency)
        self._open[detection.id] = None
        if len(self._open) > REMEMBERED:
            self._open.popitem(last=False)

    def deny(self, identity: str) -> bool:
        """Count a denial, once; False when no such detection is remembered or it was denied before."""
        if identity not in self._open:
            return False
        del self._open[identity]
        self._denied += 1
        return True

    def figures(self) -> DetectFigures:
        """The figures as they are now."""
        seconds, quiet = self.samples / RATE, self.quiet_samples / RATE / 3600
        hours, count = seconds / 3600, sum(self._words.values())
        p50, p95 = np.percentile(self._latencies, (50, 95)).tolist() if self._latencies else (None, None)
        return DetectFigures(
            hours=hours, detections=count, by_word=dict(self._words),
            detections_per_hour=count / hours if hours else 0.0,
            denied=self._denied, denied_per_hour=self._denied / hours if hours else 0.0,
            quiet_hours=quiet, quiet_detections=self._quiet_detections,
            false_accepts_per_hour=self._quiet_detections / quiet if quiet else None,
            latency_p50=p50, latency_p95=p95, real_time_factor=self.cpu / seconds if seconds else 0.0,
            windows=self.windows, open_share=self.open_hops / self.hops if self.hops else 0.0,
        )  # fmt: skip
