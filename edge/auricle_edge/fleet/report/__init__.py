"""What a device tells its coordinator about how well it hears: coarse figures, and only if its owner has said so."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_edge.fleet.report.reporter import HearingReporter, ReportSettings

__all__ = ["HearingReporter", "ReportSettings"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = promised(
        __name__,
        {
            **dict.fromkeys(("HearingReporter", "ReportSettings"), "auricle_edge.fleet.report.reporter"),
        },
    )
