"""How well devices hear, for operators: the fleet, its labels, its devices, and the reports of one."""

from __future__ import annotations

import time
from typing import Annotated

from msgspec import Meta

from auricle.errors import StorageError
from auricle.process.times import Time
from auricle.wire.kinds import DeviceId
from auricle_cloud.observing.hearing_summary import shared_labels, together, troubles
from auricle_cloud.operations.operating import Operator, absent
from auricle_cloud.operations.types import Answer, Limit, Number
from auricle_cloud.storage.hearing_rows import DAY_SECONDS, HearingRow, HearingTotal

Span = Annotated[float, Meta(gt=0, le=365, description="Days that this is about, to now.")]


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


class HearingOperations(Operator):
    """What operators can see of how well devices hear; only of devices whose owners let them report."""

    def show_hearing(self, days: Span = 7.0, limit: Limit = 100, after: DeviceId | None = None) -> HearingPage:
        """Show how well devices hear: all together, by label, and by name."""
        totals = self.store.hearing.totals(time.time() - days * DAY_SECONDS)
        left = [total for total in totals if after is None or total.device > after]
        return HearingPage(
            days=days,
            fleet=_summary(together(totals), len(totals)),
            labels=[
                _summary(together(members, label=label), len(members))
                for label, members in shared_labels(totals).items()
            ],
            devices=[_summary(total, 1, troubles(total)) for total in left[:limit]],
            next=left[limit - 1].device if len(left) > limit else None,
        )

    def device_hearing(
        self, device: DeviceId, days: Span = 7.0, limit: Limit = 50, before: Number | None = None
    ) -> HearingDetail:
        """Show how well a device hears, and its reports, the newest first."""
        try:
            known = self.store.devices.get(device)
        except StorageError as error:
            raise absent(error) from error
        found = self.store.hearing.totals(time.time() - days * DAY_SECONDS, names=[device])
        total = found[0] if found else together([], device, known.label)
        rows = self.store.hearing.reports(device, limit=limit + 1, before=before)
        names = {pack: self.store.hearing.keywords(pack) for pack in {row.pack for row in rows if row.each}}
        return HearingDetail(
            row=_summary(total, len(found), troubles(total)),
            reports=[_period(row, names.get(row.pack, [])) for row in rows[:limit]],
            next=rows[limit - 1].period if len(rows) > limit else None,
        )


def _summary(total: HearingTotal, devices: int, found: list[str] | None = None) -> HearingSummary:
    hours = total.hours or 1.0
    return HearingSummary(
        device=total.device,
        label=total.label,
        devices=devices,
        hours=total.hours,
        detections=total.detections / hours,
        denied=total.denied / hours,
        missed=total.missed / hours,
        level=total.level,
        noise=total.noise,
        troubles=found or [],
        last=total.last or None,
    )


def _period(row: HearingRow, words: list[str]) -> HearingPeriod:
    """A report with the pack's words, or the places of words where the pack is not known here."""
    names = words if len(words) == len(row.each) else [str(place) for place in range(1, len(row.each) + 1)]
    return HearingPeriod(
        period=row.period,
        received=row.at,
        hours=row.span / 4,
        heard=row.heard / 4,
        detections=row.detections,
        denied=row.denied,
        missed=row.missed,
        level=row.level,
        noise=row.noise,
        full_scale=row.full_scale,
        offset=row.offset,
        words=dict(zip(names, row.each, strict=True)),
    )
