"""Totals of several devices as one, and what is wrong with a microphone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from auricle_cloud.storage.hearing_rows import HearingTotal

SILENT_DBFS = -84.0
"""dB of full scale: a microphone that gives less than this is dead, turned down, or not plugged in."""
OFTEN_SHARE = 0.5
"""Share of reports from which something is wrong all the time."""
SEVERAL_DEVICES = 2
"""Devices that have to share a label until it stands for more than one of them."""
TROUBLES = ("silent", "full scale", "off centre")


def troubles(total: HearingTotal) -> list[str]:
    """What is wrong with a device's microphone, of `TROUBLES`."""
    there = (
        total.level is not None and total.level <= SILENT_DBFS,
        total.at_full_scale >= OFTEN_SHARE * total.reports,
        total.off_centre >= OFTEN_SHARE * total.reports,
    )
    return [name for name, is_so in zip(TROUBLES, there, strict=True) if is_so and total.reports]


def shared_labels(totals: Sequence[HearingTotal]) -> dict[str, list[HearingTotal]]:
    """Devices by label, of labels that several have; those of most devices first."""
    found: dict[str, list[HearingTotal]] = defaultdict(list)
    for total in totals:
        if total.label:
            found[total.label].append(total)
    named = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return {label: members for label, members in named if len(members) >= SEVERAL_DEVICES}


def together(totals: Sequence[HearingTotal], device: str = "", label: str = "") -> HearingTotal:
    """Several devices' totals as one; levels are means by the time listened to."""
    return HearingTotal(
        device=device,
        label=label,
        reports=sum(t.reports for t in totals),
        hours=sum(t.hours for t in totals),
        detections=sum(t.detections for t in totals),
        denied=sum(t.denied for t in totals),
        missed=sum(t.missed for t in totals),
        complaints=sum(t.complaints for t in totals),
        level=_mean([(t.level, t.hours) for t in totals]),
        noise=_mean([(t.noise, t.hours) for t in totals]),
        at_full_scale=sum(t.at_full_scale for t in totals),
        off_centre=sum(t.off_centre for t in totals),
        last=max((t.last for t in totals), default=0.0),
    )


def _mean(weighted: Sequence[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None and weight > 0]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
