"""The chart of a wake word's page: a line a kind of scene with its interval, and the chosen point."""

from __future__ import annotations

from auricle.hearing.hits_chart import HitsChart, colour
from auricle.wire.kinds import escape, plain
from auricle_export.wakeword.report import WakeReport

CHART = HitsChart(rates=(0.1, 0.2, 0.5, 1, 2, 5, 10, 20))
SCENES = {"noise": "in noise", "rooms": "in a room", "over speech": "over speech", "after words": "after words"}


def scene_name(kind: str) -> str:
    """A kind of scene as a reader calls it."""
    return SCENES.get(kind, plain(kind))


def curve_chart(report: WakeReport) -> str:
    """Draw hits over false accepts an hour.

    Each line has the Clopper-Pearson interval of the phrases that were said in its kind of scene. A dot on each line
    and a dashed upright line are at the thresholds of the pack.
    """
    bands, lines = [], []
    for number, kind in enumerate(report.kinds):
        points = [(each.false_accepts_per_hour, each.hits[kind]) for each in report.hearing.curve if kind in each.hits]
        intervals = [(rate, report.interval(kind, share)) for rate, share in points]
        if points:
            bands.append(CHART.band([(rate, each.low, each.high) for rate, each in intervals], number))
            lines.append(CHART.line(points, number, scene_name(kind)))
    name = "Hits in percent over false accepts an hour, a line for each kind of scene"
    return CHART.svg(name, [CHART.shade_unknown(report.hearing.hours), CHART.grid(), *bands, *lines, _mark(report)])


def _mark(report: WakeReport) -> str:
    """The upright line at the pack's thresholds, named above it, and a dot for each kind of scene."""
    x = CHART.x(report.chosen.false_accepts_per_hour)
    anchor = "start" if x < CHART.width / 3 else "end" if x > 2 * CHART.width / 3 else "middle"
    dots = [
        f'<circle cx="{x:.1f}" cy="{CHART.y(report.chosen.hits[kind]):.1f}" r="4.5" fill="{colour(number)}">'
        f"<title>{escape(scene_name(kind))}: {report.chosen.hits[kind]:.1%}</title></circle>"
        for number, kind in enumerate(report.kinds)
        if kind in report.chosen.hits
    ]
    title = CHART.text(x, CHART.top - 8, "thresholds of the pack", anchor)
    return f"{CHART.upright(x, 'chosen')}{title}{''.join(dots)}"
