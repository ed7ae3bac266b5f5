"""Hits over false accepts an hour as inline SVG: a line a kind of scene, its interval, and the chosen point."""

from __future__ import annotations

import math
from collections.abc import Sequence

from auricle.packs.manifest import HeardAt
from auricle.wire.kinds import escaped
from auricle_export.wakeword.report import WakeReport

WIDTH, HEIGHT = 380, 286
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 24, 42
LEAST, MOST = 0.1, 20.0
"""False accepts an hour at both ends of the axis."""
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
SHARES = (0, 0.25, 0.5, 0.75, 1)
LINES = ("var(--one)", "var(--two)", "var(--three)", "var(--four)", "var(--five)", "var(--six)")
DASHES = ("none", "8 3", "2 3", "9 3 2 3", "1 4", "12 4")
"""Beside the colour: for readers who see fewer of them, and paper."""
SCENES = {"noise": "in noise", "rooms": "in a room", "over speech": "over speech", "after words": "after words"}


def scene_name(kind: str) -> str:
    """A kind of scene as a reader calls it."""
    return SCENES.get(kind, kind)


def stroke(number: int) -> str:
    """Attributes of the line of this number."""
    return (
        f'stroke="{LINES[number % len(LINES)]}" stroke-width="2" fill="none" '
        f'stroke-dasharray="{DASHES[number % len(DASHES)]}"'
    )


def curve_chart(report: WakeReport) -> str:
    """Draw the curve: x is logarithmic, 0.1 to 20 false accepts an hour, y the share of hits.

    Each line has the Clopper-Pearson interval of the phrases that were said in its kind of scene. Rates that the hours
    cannot show (no false accept in T hours shows only a rate under 3/T) are shaded. A dot on each line and a dashed
    upright line are at the thresholds of the pack; a rate beyond an end of the axis stands at that end.
    """
    curves = [
        (number, kind, [point for point in report.hearing.curve if kind in point.hits])
        for number, kind in enumerate(report.kinds)
    ]
    parts = [
        _unknown(report.hearing.hours),
        *_grid(),
        *(_band(report, kind, points, number) for number, kind, points in curves if points),
        *(_line(kind, points, number) for number, kind, points in curves if points),
        _mark(report),
    ]
    name = "Hits in percent over false accepts an hour, a line for each kind of scene"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def _unknown(hours: float) -> str:
    end = _x(3 / hours) if hours else WIDTH - RIGHT
    return (
        f'<rect class="unknown" x="{LEFT}" y="{TOP}" width="{end - LEFT:.1f}" height="{HEIGHT - TOP - BOTTOM}">'
        "<title>too few hours to show these rates</title></rect>"
    )


def _grid() -> list[str]:
    across = [f'<path class="rule" d="M{LEFT} {_y(share):.1f}H{WIDTH - RIGHT}"/>' for share in SHARES]
    shares = [_text(LEFT - 6, _y(share) + 4, f"{share:.0%}", "end") for share in SHARES]
    upright = [f'<path class="rule" d="M{_x(rate):.1f} {TOP}V{HEIGHT - BOTTOM}"/>' for rate in TICKS]
    rates = [_text(_x(rate), HEIGHT - BOTTOM + 16, f"{rate:g}", "middle") for rate in TICKS]
    return [
        *across,
        *shares,
        *upright,
        *rates,
        _text((LEFT + WIDTH) / 2, HEIGHT - 6, "false accepts an hour", "middle"),
    ]


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(words)}</text>'


def _band(report: WakeReport, kind: str, points: Sequence[HeardAt], number: int) -> str:
    intervals = [report.interval(kind, point.hits[kind]) for point in points]
    places = [_x(point.false_accepts_per_hour) for point in points]
    low = [f"{x:.1f},{_y(interval.low):.1f}" for x, interval in zip(places, intervals, strict=True)]
    high = [f"{x:.1f},{_y(interval.high):.1f}" for x, interval in zip(places, intervals, strict=True)]
    return f'<polygon class="band" points="{" ".join([*low, *reversed(high)])}" fill="{LINES[number % len(LINES)]}"/>'


def _line(kind: str, points: Sequence[HeardAt], number: int) -> str:
    places = " ".join(f"{_x(point.false_accepts_per_hour):.1f},{_y(point.hits[kind]):.1f}" for point in points)
    return f'<polyline points="{places}" {stroke(number)}><title>{escaped(scene_name(kind))}</title></polyline>'


def _mark(report: WakeReport) -> str:
    """The upright line at the pack's thresholds, named above it, and a dot for each kind of scene."""
    x = _x(report.chosen.false_accepts_per_hour)
    anchor = "start" if x < WIDTH / 3 else "end" if x > 2 * WIDTH / 3 else "middle"
    dots = [
        f'<circle cx="{x:.1f}" cy="{_y(report.chosen.hits[kind]):.1f}" r="4.5" fill="{LINES[number % len(LINES)]}">'
        f"<title>{escaped(scene_name(kind))}: {report.chosen.hits[kind]:.1%}</title></circle>"
        for number, kind in enumerate(report.kinds)
        if kind in report.chosen.hits
    ]
    return (
        f'<path class="chosen" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        f"{_text(x, TOP - 8, 'thresholds of the pack', anchor)}{''.join(dots)}"
    )


def _x(rate: float) -> float:
    along = math.log10(min(max(rate, LEAST), MOST) / LEAST) / math.log10(MOST / LEAST)
    return LEFT + (WIDTH - RIGHT - LEFT) * along


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share
