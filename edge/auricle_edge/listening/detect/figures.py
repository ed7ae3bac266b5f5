"""What a detector says about itself."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque

import numpy as np

from auricle.speech.quantiles import quantile
from auricle_edge.listening.listening_status import DetectFigures
from auricle_edge.listening.sound import RATE, Detection

REMEMBERED_DETECTIONS = 1_000
"""Detections of which latency and denials are kept."""


class Tally:
    """Counts for one detector; its caller sees to it that one thread at a time does."""

    def __init__(self) -> None:
        self.samples = 0
        self.hops = self.open_hops = self.windows = self.second_windows = 0
        self.wakes = self.timeouts = 0
        self.cpu = 0.0
        self._words: Counter[str] = Counter()
        self._denied = 0
        self._latencies: deque[float] = deque(maxlen=REMEMBERED_DETECTIONS)
        self._open: OrderedDict[str, None] = OrderedDict()

    def sound(self, samples: int, cpu: float) -> None:
        """Count sound that was heard, and what it cost."""
        self.samples += samples
        self.cpu += cpu

    def hop(self, *, open_: bool, judged: bool) -> None:
        """Count a hop."""
        self.hops += 1
        self.open_hops += open_
        self.windows += judged

    def detected(self, detection: Detection) -> None:
        """Count a detection."""
        self._words[detection.word] += 1
        self.wakes += detection.kind == "wake"
        self._latencies.append(detection.latency)
        self._open[detection.id] = None
        if len(self._open) > REMEMBERED_DETECTIONS:
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
        seconds = self.samples / RATE
        hours, count = seconds / 3600, sum(self._words.values())
        latencies = np.array(self._latencies)
        p50, p95 = (quantile(latencies, share) for share in (0.5, 0.95)) if len(latencies) else (None, None)
        return DetectFigures(
            hours=hours,
            detections=count,
            by_word=dict(self._words),
            detections_per_hour=count / hours if hours else 0.0,
            denied=self._denied,
            denied_per_hour=self._denied / hours if hours else 0.0,
            wakes=self.wakes,
            timeouts=self.timeouts,
            latency_p50=p50,
            latency_p95=p95,
            real_time_factor=self.cpu / seconds if seconds else 0.0,
            windows=self.windows,
            second_windows=self.second_windows,
            second_share=self.second_windows / self.windows if self.windows else 0.0,
            open_share=self.open_hops / self.hops if self.hops else 0.0,
        )
