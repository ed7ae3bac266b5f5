"""One period of hearing: what was counted in it, made coarse before it leaves the device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from auricle.wire.kinds import Rounded
from auricle_edge.listening.listening_status import CaptureState, DetectFigures

STEPS: tuple[Rounded, ...] = get_args(Rounded)
DECIBELS = 3
QUIETEST_DBFS = -96
"""dB of full scale: 16 bits hold nothing quieter."""


def round_count(count: int) -> Rounded:
    """The nearest count that may be said, the lower one of two; 1,000 for all above.

    Counts up to 3 stay as they are; above, the error is a quarter at most.
    """
    return min(STEPS, key=lambda step: (abs(step - count), step))


def decibels(level: float) -> int:
    """A level in dB of full scale, to the nearest 3 dB from -96 to 0."""
    return max(QUIETEST_DBFS, min(0, DECIBELS * round(level / DECIBELS)))


def full_scale(share: float) -> Literal["none", "trace", "some", "much"]:
    """How much of the sound is at full scale: nothing, below 0.1 %, below 1 %, or more."""
    if share <= 0:
        return "none"
    return "trace" if share < 0.001 else "some" if share < 0.01 else "much"


def offset(mean: float) -> Literal["none", "small", "large"]:
    """How far the sound's mean is from 0, of full scale: below 0.1 %, below 1 %, or more."""
    return "none" if abs(mean) < 0.001 else "small" if abs(mean) < 0.01 else "large"


@dataclass(frozen=True)
class Reading:
    """A moment of the microphone."""

    level: float | None
    """dB of full scale; None while no sound comes."""
    full_scale: float
    """Share of samples at full scale."""
    noise: float | None = None
    """Noise floor in dB of full scale; None while no sound comes."""
    offset: float | None = None
    """Mean of the samples, of full scale; None while no sound comes."""


def reading_of(state: CaptureState) -> Reading:
    """What the capture says now."""
    hears = state.running and not state.muted
    if not hears:
        return Reading(level=None, full_scale=state.clipping)
    return Reading(state.level_dbfs, state.clipping, noise=state.noise_floor_dbfs, offset=state.dc_offset)


QUARTER_SECONDS = 900.0
"""Seconds of a quarter hour."""
LONGEST_QUARTERS = 96
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
        span = min(LONGEST_QUARTERS, max(1, round((now - self.began) / QUARTER_SECONDS)))
        heard = min(span, round((after.hours - before.hours) * 3600 / QUARTER_SECONDS))
        if heard < 1:
            return None
        each = (after.by_word.get(word, 0) - before.by_word.get(word, 0) for word in keywords[:MOST_KEYWORDS])
        mean = _median(self._offsets)
        return HearingFigures(
            base=self._base,
            span=span,
            heard=heard,
            detections=round_count(after.detections - before.detections),
            denied=round_count(after.denied - before.denied),
            missed=round_count(self.missed),
            level=_median(self._levels),
            noise=_median(self._noises),
            full_scale=full_scale(self._full_scale / self._readings if self._readings else 0.0),
            offset=None if mean is None else offset(mean / FINE),
            each=tuple(round_count(count) for count in each),
        )


def _median(counted: Counter[int]) -> int | None:
    """The lower median of counted values; None of none."""
    left = (counted.total() + 1) // 2
    for value in sorted(counted):
        left -= counted[value]
        if left <= 0:
            return value
    return None
