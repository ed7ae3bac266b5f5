"""What became of the devices of a round, found in its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from auricle_cloud.states.outcome import Outcome
from auricle_cloud.states.report import CountedUpdate, RoundReport


@dataclass(frozen=True)
class DevicesOfRound:
    """A report in which many devices are soon looked up."""

    report: RoundReport
    invited: frozenset[str]
    declined: frozenset[str]
    dropped: frozenset[str]
    updates: Mapping[str, CountedUpdate]

    @classmethod
    def of(cls, report: RoundReport) -> DevicesOfRound:
        """Index a report."""
        return DevicesOfRound(
            report=report,
            invited=frozenset(report.invited),
            declined=frozenset(report.declined),
            dropped=frozenset(report.dropped),
            updates={update.device: update for update in report.updates},
        )


def outcome_of(known: DevicesOfRound, name: str) -> Outcome:
    """What became of a device."""
    report = known.report
    if name in known.updates:
        if name in known.dropped:
            return "dropped"
        return "left_out" if known.updates[name].left_out else "counted"
    if name in report.refused:
        return "late" if str(report.refused[name]).startswith(("late", "closed")) else "refused"
    if name in report.failed:
        return "declined" if name in known.declined else "failed"
    if name not in known.invited:
        return "not_invited"
    return "elsewhere" if name in report.elsewhere else "silent"


def count_outcomes(report: RoundReport) -> Counter[Outcome]:
    """How many devices have each outcome, of all that had to do with the round."""
    known = DevicesOfRound.of(report)
    names = {*known.invited, *known.updates, *report.failed, *report.refused}
    return Counter(outcome_of(known, name) for name in names)
