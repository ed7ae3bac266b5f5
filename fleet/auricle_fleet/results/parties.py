"""Who of a round had labels, and how far their directions are from the one that it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import msgspec

from auricle.wire.kinds import escape
from auricle_fleet.results.result import RoundRow


class _Update(msgspec.Struct):
    device: str
    samples: int
    unsupervised: int | None = None


class _Direction(msgspec.Struct):
    angles: dict[str, float | None]
    coordinator: float | None


class _Report(msgspec.Struct):
    """What is read of a round's report."""

    updates: list[_Update] = []
    direction: _Direction | None = None


class Parties(TypedDict, total=False):
    """Fields of a row."""

    labelled_devices: int
    unlabelled_devices: int
    coordinator_angle: float | None
    labelled_angle: float | None
    unlabelled_angle: float | None


def parties(report: Mapping[str, object]) -> Parties:
    """What a round's report says: who had labels, where its plan asked for FixMatch, and angles, where it has some."""
    told = msgspec.convert(report, _Report)
    known = [update for update in told.updates if update.unsupervised is not None]
    free = {update.device for update in known if update.unsupervised == update.samples}
    found: Parties = {}
    if known:
        found = {"labelled_devices": len(told.updates) - len(free), "unlabelled_devices": len(free)}
    if told.direction:
        angles = {name: angle for name, angle in told.direction.angles.items() if angle is not None}
        found["coordinator_angle"] = told.direction.coordinator
        found["labelled_angle"] = _mean([angle for name, angle in angles.items() if name not in free])
        found["unlabelled_angle"] = _mean([angle for name, angle in angles.items() if name in free])
    return found


def by_party(rounds: Sequence[RoundRow]) -> str:
    """A table of them for `report.html`, a row a round; nothing without FixMatch and without angles."""
    shown = [row for row in rounds if row.unlabelled_devices is not None or row.coordinator_angle is not None]
    if not shown:
        return ""
    names = (
        "round",
        "devices with labels",
        "without",
        "angle of the coordinator's clips",
        "mean of devices with labels",
        "without",
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{escape(cell)}</td>"
            for cell in (
                str(row.round),
                _number(row.labelled_devices),
                _number(row.unlabelled_devices),
                _degrees(row.coordinator_angle),
                _degrees(row.labelled_angle),
                _degrees(row.unlabelled_angle),
            )
        )
        + "</tr>"
        for row in shown
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    return (
        "<h2>With labels and without, by round</h2><p>Angles are between a party's direction and the one that the "
        "round took: below 90 degrees it goes with the party, above against it.</p>"
        f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'
    )


def _mean(angles: Sequence[float]) -> float | None:
    return sum(angles) / len(angles) if angles else None


def _number(count: int | None) -> str:
    return "-" if count is None else str(count)


def _degrees(angle: float | None) -> str:
    return "-" if angle is None else f"{angle:.1f}°"
