"""Lines, bars and heat maps as SVG: files that stand alone, with every name beside what it names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from auricle.wire.kinds import escape

WIDTH_PX, MARGIN = 720, 16
PLOT = 270
"""Height of the plot of a line chart."""
TOP_PX, AXIS, KEY_PX = 72, 44, 20
"""Heights above a plot (title, subtitle, name of the value axis), below it (its ticks), and of a line of the key."""
LEFT_PX, RIGHT_PX = 56, 24
"""Beside a plot."""
INK, SOFT, GRID, PAPER = "#1c2330", "#5c6675", "#d8dde5", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc5fa0", "#7a5195", "#b07d00", "#3fa7e0", "#444b57")
"""After Okabe and Ito (2008): apart for readers who see fewer colours, and dark enough on white."""
DASHES = ("", "7 4", "2 3", "9 3 2 3")
MANY = 5
"""Lines above which their bands are lighter."""
FONTS = "Helvetica, Arial, DejaVu Sans, Liberation Sans, Noto Sans, Roboto, Segoe UI, sans-serif"
BAR_PX = 18
LARGEST_CELL, MAP = 36, 460
"""Side of a heat map's cell at the most, and about the side of its whole."""
FEWEST_PIXELS = 22
"""Side of a cell that has room for a number."""
WIDE = 0.62
"""Mean width of a letter by its height, in the widest of the usual fonts."""

Point = tuple[float, float, float, float]
"""x, and the least, mean and most there."""


@dataclass(frozen=True)
class Series:
    """A line of a chart, of points in the order of x."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Axis:
    """An axis: from `low` to `high`, and what it is called."""

    title: str
    low: float
    high: float
    is_share: bool = False
    """Shown in percent."""

    def at(self, value: float) -> float:
        """How far along it a value lies, 0 to 1."""
        return min(max((value - self.low) / ((self.high - self.low) or 1.0), 0.0), 1.0)

    def shown(self, value: float) -> str:
        """A value of it as text."""
        return f"{100 * value:.0f} %" if self.is_share else f"{value:g}"


@dataclass(frozen=True)
class Bar:
    """A bar of a chart: its value, None for a text without a bar, and what the text behind it says."""

    name: str
    value: float | None
    text: str


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two values, about five of them."""
    span = (high - low) or 1.0
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next(f for f in (1, 2, 5, 10) if span / (step * f) <= 5)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def style(number: int) -> tuple[str, str]:
    """Colour and dash of the line of this number: a pair of its own for each of the first 32."""
    rest = number // len(COLOURS)
    return COLOURS[number % len(COLOURS)], DASHES[(number + rest) % len(DASHES)]


def line_chart(title: str, subtitle: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Draw lines, each with a colour and a dash of its own, and a band from the least to the most.

    Parameters
    ----------
    series
        One without points is in the key only; one of a single point is a dot.
    x
        Where it is of rounds, `low` is 1, which has a tick too.
    """
    key, rows = _key([line.name for line in series], TOP_PX + PLOT + AXIS)
    parts = [title_of(title, subtitle), text(MARGIN, TOP_PX - 12, y.title, "start", SOFT)]
    for tick in ticks(y.low, y.high):
        level = _up(y, tick)
        parts.append(
            f'<line x1="{LEFT_PX}" x2="{WIDTH_PX - RIGHT_PX}" y1="{level:.1f}" y2="{level:.1f}" stroke="{GRID}"/>'
        )
        parts.append(text(LEFT_PX - 6, level + 4, y.shown(tick), "end", SOFT))
    for tick in sorted({x.low, *ticks(x.low, x.high)}):
        if x.is_share or float(tick).is_integer():
            parts.append(text(_right(x, tick), TOP_PX + PLOT + 18, x.shown(tick), "middle", SOFT))
    parts.append(text(LEFT_PX + (WIDTH_PX - LEFT_PX - RIGHT_PX) / 2, TOP_PX + PLOT + 36, x.title, "middle", SOFT))
    for number, line in enumerate(series):
        parts += _line(line, x, y, *style(number), 0.13 if len(series) <= MANY else 0.06)
    return svg_of(f"{title}, {subtitle}", WIDTH_PX, TOP_PX + PLOT + AXIS + rows * KEY_PX + MARGIN, [*parts, *key])


def bar_chart(title: str, blocks: Sequence[tuple[str, Sequence[Bar]]], most: float) -> str:
    """Draw bars from the left, in blocks under a heading each.

    Parameters
    ----------
    most
        The value of a bar that fills the width.
    """
    names = [bar.name for _, bars in blocks for bar in bars]
    left = MARGIN + max(map(text_width, names), default=0) + 10
    room = WIDTH_PX - left - MARGIN - max((text_width(bar.text) for _, bars in blocks for bar in bars), default=0) - 8
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    parts, y = [title_of(title, "")], 44.0
    for heading, bars in blocks:
        parts.append(text(MARGIN, y + 12, heading, "start", INK, weight=600))
        y += 20
        for bar in bars:
            length = max(room, 40.0) * min(max((bar.value or 0.0) / (most or 1.0), 0.0), 1.0)
            parts.append(text(left - 8, y + 13, bar.name, "end", SOFT))
            if bar.value is not None:
                parts.append(
                    f'<rect x="{left:.1f}" y="{y + 2:.1f}" width="{max(length, 1.0):.1f}" height="{BAR_PX - 4}" '
                    f'fill="{style(number[bar.name])[0]}"/>'
                )
            parts.append(text(left + length + 6, y + 13, bar.text, "start", INK))
            y += BAR_PX
        y += 10
    return svg_of(title, WIDTH_PX, y + MARGIN, parts)


def heat_map(title: str, subtitle: str, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Draw counts (L, L), what was said by what it was taken for: darker the larger its share of its row.

    A cell has its share of the row in percent, rounded, where it has room for it and is not empty.
    """
    side = max(min(LARGEST_CELL, MAP / max(len(labels), 1)), 10)
    size = min(12.0, 0.8 * side)
    longest = max((text_width(label, size) for label in labels), default=0)
    left, top = MARGIN + 18 + longest + 8, 62.0
    across = side * len(labels)
    parts = [title_of(title, subtitle)]
    for i, (label, row) in enumerate(zip(labels, counts, strict=True)):
        middle = top + side * (i + 0.5)
        parts.append(text(left - 6, middle + size / 3, label, "end", SOFT, size=size))
        parts.append(_upwards(left + side * (i + 0.5) + size / 3, top + across + 6, label, size))
        for j, count in enumerate(row):
            share = count / (sum(row) or 1)
            parts.append(
                f'<rect x="{left + side * j:.1f}" y="{top + side * i:.1f}" width="{side - 1:.1f}" '
                f'height="{side - 1:.1f}" fill="{shade(share)}"/>'
            )
            if side >= FEWEST_PIXELS and round(100 * share):
                ink = PAPER if share > 0.6 else INK
                x = left + side * (j + 0.5)
                parts.append(text(x, middle + 4, f"{100 * share:.0f}", "middle", ink, size=min(11.0, side / 3)))
    parts.append(_upwards(MARGIN + 12, top + across / 2, "said", 12, anchor="middle"))
    low = top + across + 6 + longest + 20
    parts.append(text(left, low, "taken for, % of what was said", "start", SOFT))
    width = max(left + max(across, text_width("taken for, % of what was said")), _title_width(title, subtitle)) + MARGIN
    return svg_of(f"{title}, {subtitle}", width, low + MARGIN, parts)


def text_width(words: str, size: float = 12) -> float:
    """About how wide text is, in pixels."""
    return WIDE * size * len(words)


def text(
    x: float, y: float, words: str, anchor: str, colour: str, *, size: float = 12, weight: int = 400, turn: str = ""
) -> str:
    """Text at a place. Its look is in `style`, which no style sheet of a page around it changes."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turn} '
        f'style="fill:{colour};font-size:{size:g}px;font-weight:{weight}">{escape(words)}</text>'
    )


def _upwards(x: float, y: float, words: str, size: float, anchor: str = "end") -> str:
    return text(x, y, words, anchor, SOFT, size=size, turn=f' transform="rotate(-90 {x:.1f} {y:.1f})"')


def title_of(title: str, subtitle: str) -> str:
    """Title and subtitle at the top of a drawing."""
    return text(MARGIN, 20, title, "start", INK, size=15, weight=600) + (
        text(MARGIN, 38, subtitle, "start", SOFT) if subtitle else ""
    )


def _title_width(title: str, subtitle: str) -> float:
    return MARGIN + max(text_width(title, 16), text_width(subtitle))


def _key(names: Sequence[str], top: float) -> tuple[list[str], int]:
    """The key below a chart, a name behind the other as they fit, and its lines."""
    parts, x, row = [], float(LEFT_PX), 0
    for number, name in enumerate(names):
        wide = 32 + text_width(name) + 18
        if x > LEFT_PX and x + wide > WIDTH_PX:
            x, row = float(LEFT_PX), row + 1
        y, (colour, dash) = top + row * KEY_PX + 8, style(number)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x + 26:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="2.5" '
            f'stroke-dasharray="{dash}"/>'
        )
        parts.append(text(x + 32, y + 4, name, "start", INK))
        x += wide
    return parts, row + 1 if names else 0


def _line(line: Series, x: Axis, y: Axis, colour: str, dash: str, opacity: float) -> list[str]:
    at = [(_right(x, place), _up(y, low), _up(y, mean), _up(y, high)) for place, low, mean, high in line.points]
    if len(at) == 1:
        return [f'<circle cx="{at[0][0]:.1f}" cy="{at[0][2]:.1f}" r="4" fill="{colour}"/>']
    if not at:
        return []
    band = [f"{place:.1f},{low:.1f}" for place, low, _, _ in at]
    band += [f"{place:.1f},{high:.1f}" for place, _, _, high in reversed(at)]
    mean = " ".join(f"{place:.1f},{middle:.1f}" for place, _, middle, _ in at)
    return [
        f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="{opacity}"/>',
        f'<polyline points="{mean}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>',
    ]


def _right(axis: Axis, value: float) -> float:
    return LEFT_PX + (WIDTH_PX - LEFT_PX - RIGHT_PX) * axis.at(value)


def _up(axis: Axis, value: float) -> float:
    return TOP_PX + PLOT * (1 - axis.at(value))


def shade(share: float) -> str:
    """The colour of a share, 0 to 1: from near white to the first colour."""
    light, dark = (0xF1, 0xF4, 0xF8), (0x00, 0x55, 0x90)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(light, dark, strict=True))


def svg_of(label: str, width: float, height: float, parts: Sequence[str]) -> str:
    """A file of parts, on paper of so many pixels."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}" '
        f'font-family="{FONTS}"><rect width="100%" height="100%" fill="{PAPER}"/>'
        f"{''.join(parts)}</svg>"
    )
