"""Accuracy over rounds as SVG, a file that stands alone: the mean of the seeds, and from the least to the most."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from auricle.wire.kinds import escaped
from auricle_fleet.results.report import ticks
from auricle_fleet.suite.folder import Ended
from auricle_fleet.suite.plan import Suite
from auricle_fleet.suite.tables import Figure

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 320, 52, 40, 14, 14
KEY = 20
"""Height of a line of the key below."""
ACROSS = 3
"""Methods a line of the key."""
COLOURS = ("#0b62c4", "#c2500a", "#2a8a3e", "#8a3ea8", "#b8860b", "#0f8a8a", "#c0396b", "#5c6675")
DASHES = ("", "7 4", "2 3", "9 3 2 3")

Line = list[tuple[int, float, float, float]]
"""Round, and the least, mean and most of the seeds in it."""


def curves(suite: Suite, ended: Sequence[Ended], condition: str, figure: Figure) -> str | None:
    """Draw a figure of all methods in a condition; None where no run tells it.

    A line has a colour and a dash of its own, so that it is known without colours too.
    """
    lines = [
        (
            method.name,
            _line([e for e in ended if (e.cell.method, e.cell.condition) == (method.name, condition)], figure),
        )
        for method in suite.methods
    ]
    points = [point for _, line in lines for point in line]
    if not points:
        return None
    last = max(point[0] for point in points)
    rows = -(-len(lines) // ACROSS)
    height = HEIGHT + rows * KEY
    title = f"{figure.title}, {condition}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escaped(title)}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for tick in ticks(0, 1):
        y = _y(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d8dde5"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#5c6675">{100 * tick:.0f} %</text>')
    for tick in sorted({1, *(int(t) for t in ticks(1, last) if 1 <= t <= last)}):
        x = _x(tick, last)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#5c6675">{tick}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end" fill="#5c6675">round</text>')
    for i, (name, line) in enumerate(lines):
        parts += _drawn(line, last, *_style(i))
        parts += _key(i, name)
    return "".join([*parts, "</svg>"])


def _line(ended: Sequence[Ended], figure: Figure) -> Line:
    by_round: dict[int, list[float]] = {}
    for each in ended:
        for row in each.rounds:
            value = figure.by_round(row)
            if value is not None:
                by_round.setdefault(row.round, []).append(value)
    return [(n, min(values), statistics.fmean(values), max(values)) for n, values in sorted(by_round.items())]


def _style(i: int) -> tuple[str, str]:
    return COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]


def _x(number: int, last: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (number - 1) / max(1, last - 1)


def _y(value: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(max(value, 0.0), 1.0)


def _drawn(line: Line, last: int, colour: str, dash: str) -> list[str]:
    if not line:
        return []
    if len(line) == 1:
        (n, _, middle, _), *_ = line
        return [f'<circle cx="{_x(n, last):.1f}" cy="{_y(middle):.1f}" r="4" fill="{colour}"/>']
    least = [f"{_x(n, last):.1f},{_y(low):.1f}" for n, low, _, _ in line]
    most = [f"{_x(n, last):.1f},{_y(high):.1f}" for n, _, _, high in line]
    mean = " ".join(f"{_x(n, last):.1f},{_y(middle):.1f}" for n, _, middle, _ in line)
    return [
        f'<polygon points="{" ".join([*least, *reversed(most)])}" fill="{colour}" opacity="0.13"/>',
        f'<polyline points="{mean}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>',
    ]


def _key(i: int, name: str) -> list[str]:
    colour, dash = _style(i)
    x, y = LEFT + (i % ACROSS) * (WIDTH - LEFT) / ACROSS, HEIGHT + i // ACROSS * KEY + 6
    return [
        f'<line x1="{x:.0f}" x2="{x + 26:.0f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dash}"/>',
        f'<text x="{x + 32:.0f}" y="{y + 4}" fill="#1c2330">{escaped(name)}</text>',
    ]
