"""A round's report with what only the rows of its cohort say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import to_builtins

from auricle_cloud.states.report import RoundReport, read_report
from auricle_cloud.states.round import GAVE_UP
from auricle_cloud.storage.rows import RoundRow

if TYPE_CHECKING:
    from auricle_cloud.storage.listings import MemberRow


def report_with_cohort(found: RoundRow, cohort: Sequence[MemberRow]) -> RoundReport:
    """A round's report, or what is known before there is one, with what only its cohort's rows say."""
    number = found.round
    report = found.report or {}
    counted = [row for row in cohort if row.counted_in == number]

    def of(*states: str) -> dict[str, str | None]:
        return {row.device: row.reason for row in cohort if row.state in states}

    written = {
        "invited": [row.device for row in cohort],
        "updates": [to_builtins(row) for row in counted],
        "failed": of(*GAVE_UP),
        **report,
        "refused": {**of("late", "refused"), **(report.get("refused") or {})},
        "declined": list(of("declined")),
        "elsewhere": {row.device: row.counted_in for row in cohort if row.counted_in not in (None, number)},
    }
    return read_report(written)
