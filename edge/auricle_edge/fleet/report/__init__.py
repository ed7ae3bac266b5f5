"""What a device tells its coordinator about how well it hears: coarse figures, and only if its owner has said so."""

from auricle_edge.fleet.report.reporter import HearingReporter, ReportSettings

__all__ = ["HearingReporter", "ReportSettings"]
