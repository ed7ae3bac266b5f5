"""Reports of hearing as structs: one, and what a device has reported in a span of time."""

from __future__ import annotations

import msgspec

from auricle_cloud.states.hearing_comparison import Heard

DAY_SECONDS = 86_400.0


class HearingTotal(msgspec.Struct, frozen=True, kw_only=True):
    """What one device has reported in a span of time."""

    device: str
    label: str
    reports: int
    hours: float
    """With sound."""
    detections: int
    denied: int
    missed: int
    complaints: int
    """Denied and missed, at most `MOST_AN_HOUR` of an hour."""
    level: float | None
    """Mean of the reports' medians, dB of full scale."""
    noise: float | None
    at_full_scale: int
    """Reports in which 1 % of the samples or more were at full scale."""
    off_centre: int
    """Reports in which the sound's mean was 1 % of full scale or more away from 0."""
    last: float
    """When the newest came."""

    @property
    def heard(self) -> Heard:
        """What of it is compared."""
        return Heard(self.device, self.complaints, self.hours)


class HearingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One report."""

    period: int
    at: float
    pack: str
    base: str | None
    span: int
    heard: int
    detections: int
    denied: int
    missed: int
    level: int | None
    noise: int | None
    full_scale: str
    offset: str | None
    each: list[int]
