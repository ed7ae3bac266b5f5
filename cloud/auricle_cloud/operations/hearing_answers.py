"""What operators are told about how well devices hear."""

from __future__ import annotations

from auricle.process.times import Time
from auricle_cloud.operations.answer import Answer


class HearingSummary(Answer, frozen=True, kw_only=True):
    """What was reported of one device, of devices with one label, or of all, in a span of time."""

    device: str
    """Empty where it is of several."""
    label: str
    devices: int
    """That have reported."""
    hours: float
    """With sound."""
    detections: float
    """An hour, as are the next two."""
    denied: float
    """Of which a person has said that they were wrong."""
    missed: float
    """Times that a person has said that a word was not heard."""
    level: float | None
    """dB of full scale."""
    noise: float | None
    """Noise floor in dB of full scale."""
    troubles: list[str]
    """silent, full scale, off centre: what is wrong with a microphone."""
    last: Time | None
    """When the newest report came."""


class HearingPage(Answer, frozen=True, kw_only=True):
    """How well devices hear: all together, by label, and by name."""

    days: float
    """That this is about."""
    fleet: HearingSummary
    labels: list[HearingSummary]
    """Labels that several devices have."""
    devices: list[HearingSummary]
    next: str | None
    """Give it as `after` for the next page."""


class HearingPeriod(Answer, frozen=True, kw_only=True):
    """One report: counts are coarse, times are whole quarters of an hour."""

    period: int
    """The device's own number."""
    received: Time
    hours: float
    heard: float
    """Hours of it with sound."""
    detections: int
    denied: int
    missed: int
    level: int | None
    noise: int | None
    full_scale: str
    offset: str | None
    words: dict[str, int]
    """Detections by keyword, where the owner of the device allows it."""


class HearingDetail(Answer, frozen=True, kw_only=True):
    """How well one device hears, and its reports, the newest first."""

    row: HearingSummary
    reports: list[HearingPeriod]
    next: int | None
    """Give it as `before` for older reports."""
