"""One period of hearing: what was counted in it, made coarse at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from auricle.wire.kinds import Rounded
from auricle_edge.fleet.report.coarse import decibels, full_scale, offset, rounded
from auricle_edge.fleet.report.readings import Reading
from auricle_edge.listening.detect.figures import DetectFigures

QUARTER = 900.0
"""Seconds of a quarter hour."""
LONGEST = 96
"""Quarter hours that one report can cover: a day."""
FINE = 10_000
"""Offsets are noted in parts of it."""
MOST_KEYWORDS = 64
"""Of a report that names counts by keyword."""


@dataclass(frozen=True, kw_only=True)
class HearingFigures:
    """What a `HearingReport` says, without who says it and of which pack."""

    base: str | None
    span: int
    heard: int
    detections: Rounded
    denied: Rounded
    missed: Rounded
    level: int | None
    noise: int | None
    full_scale: Literal["none", "trace", "some", "much"]
    offset: Literal["none", "small", "large"] | None
    each: tuple[Rounded, ...]


class Period:
    """What is noted from one report to the next.

    Parameters
    ----------
    began
        When it began, in seconds of the reporter's clock.
    before
        What the detector had counted by then.
    base
        The fleet's model that was received last.
    """

    def __init__(self, began: float, before: DetectFigures, base: str | None) -> None:
        self.began, self._before, self._base = began, before, base
        self.missed = 0
        self._levels: Counter[int] = Counter()
        self._noises: Counter[int] = Counter()
        self._offsets: Counter[int] = Counter()
        self._full_scale, self._readings = 0.0, 0

    def note(self, reading: Reading, base: str | None) -> None:
        """Take in a moment of the microphone, and which model listens now."""
        if base != self._base:
            self._base = None
        if reading.level is None:
            return
        self._readings += 1
        self._full_scale += reading.full_scale
        self._levels[decibels(reading.level)] += 1
        if reading.noise is not None:
            self._noises[decibels(reading.noise)] += 1
        if reading.offset is not None:
            self._offsets[round(abs(reading.offset) * FINE)] += 1

    def figures(self, now: float, after: DetectFigures, keywords: Sequence[str]) -> HearingFigures | None:
        """The coarse figures of the period that ends now; None where not even half a quarter hour was listened to.

        Parameters
        ----------
        now
            In seconds of the reporter's clock.
        after
            What the detector has counted by now.
        keywords
            Those of which the counts are said one by one, in the pack's order; usually none.
        """
        before = self._before
        span = min(LONGEST, max(1, round((now - self.began) / QUARTER)))
        heard = min(span, round((after.hours - before.hours) * 3600 / QUARTER))
        if heard < 1:
            return None
        each = (after.by_word.get(word, 0) - before.by_word.get(word, 0) for word in keywords[:MOST_KEYWORDS])
        mean = _median(self._offsets)
        return HearingFigures(
            base=self._base,
            span=span,
            heard=heard,
            detections=rounded(after.detections - before.detections),
            denied=rounded(after.denied - before.denied),
            missed=rounded(self.missed),
            level=_median(self._levels),
            noise=_median(self._noises),
            full_scale=full_scale(self._full_scale / self._readings if self._readings else 0.0),
            offset=None if mean is None else offset(mean / FINE),
            each=tuple(rounded(count) for count in each),
        )


def _median(counted: Counter[int]) -> int | None:
    """The lower median of counted values; None of none."""
    left = (counted.total() + 1) // 2
    for value in sorted(counted):
        left -= counted[value]
        if left <= 0:
            return value
    return None
