"""Hits over false accepts an hour as inline SVG, for every page that shows them: grid, bands, lines, what is not known.

Colours are `--one` to `--six` of the page, `rule`, `unknown` and `band` classes of its style.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

SHARES = (0, 0.25, 0.5, 0.75, 1)
LEAST_RATE = 0.1
"""False accepts an hour where the axis begins."""
COLOURS = ("var(--one)", "var(--two)", "var(--three)", "var(--four)", "var(--five)", "var(--six)")
DASHES = ("none", "8 3", "2 3", "9 3 2 3", "1 4", "12 4")
"""Beside the colour: for readers who see fewer of them, and paper."""


def colour(number: int) -> str:
    """The colour of the line of this number."""
    return COLOURS[number % len(COLOURS)]


def stroke(number: int) -> str:
    """Attributes of the line of this number."""
    dash = DASHES[number % len(DASHES)]
    return f'stroke="{colour(number)}" stroke-width="2" fill="none" stroke-dasharray="{dash}"'


def key(names: Iterable[str]) -> str:
    """A key of lines by their names, in the order of their numbers."""
    return "".join(
        f'<span><svg viewBox="0 0 32 10" aria-hidden="true"><path d="M0 5H32" {stroke(number)}/></svg>'
        f"{escape(name)}</span>"
        for number, name in enumerate(names)
    )


@dataclass(frozen=True)
class HitsChart:
    """The area of a chart: x is logarithmic, from 0.1 false accepts an hour, y the share of hits.

    A rate beyond an end of the axis stands at that end.
    """

    rates: Sequence[float]
    """Ticks of the axis; it ends at the last of them."""
    axis: str = "false accepts an hour"
    width: int = 380
    height: int = 286
    left: int = 40
    right: int = 12
    top: int = 24
    bottom: int = 42

    def x(self, rate: float) -> float:
        """Pixels from the left of a rate."""
        most = self.rates[-1]
        along = math.log10(min(max(rate, LEAST_RATE), most) / LEAST_RATE) / math.log10(most / LEAST_RATE)
        return self.left + (self.width - self.right - self.left) * along

    def y(self, share: float) -> float:
        """Pixels from the top of a share of hits."""
        return self.height - self.bottom - (self.height - self.bottom - self.top) * share

    def text(self, x: float, y: float, words: str, anchor: str) -> str:
        """Words at a place."""
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'

    def upright(self, x: float, kind: str) -> str:
        """Draw a line from bottom to top, of a class of the page's style."""
        return f'<path class="{kind}" d="M{x:.1f} {self.top}V{self.height - self.bottom}"/>'

    def grid(self) -> str:
        """Lines and labels of both axes."""
        end = self.width - self.right
        across = [f'<path class="rule" d="M{self.left} {self.y(share):.1f}H{end}"/>' for share in SHARES]
        shares = [self.text(self.left - 6, self.y(share) + 4, f"{share:.0%}", "end") for share in SHARES]
        upright = [self.upright(self.x(rate), "rule") for rate in self.rates]
        below = self.height - self.bottom + 16
        rates = [self.text(self.x(rate), below, f"{rate:g}", "middle") for rate in self.rates]
        axis = self.text((self.left + self.width) / 2, self.height - 6, self.axis, "middle")
        return "".join([*across, *shares, *upright, *rates, axis])

    def shade_unknown(self, hours: float) -> str:
        """Shade the rates that so many hours cannot show: no false accept in T hours shows only a rate under 3/T."""
        end = self.x(3 / hours) if hours else self.width - self.right
        size = f'width="{end - self.left:.1f}" height="{self.height - self.top - self.bottom}"'
        return (
            f'<rect class="unknown" x="{self.left}" y="{self.top}" {size}>'
            "<title>too few hours to show these rates</title></rect>"
        )

    def line(self, points: Iterable[tuple[float, float]], number: int, name: str) -> str:
        """Draw hits (rate, share) as the line of a number."""
        return f'<polyline points="{self._places(points)}" {stroke(number)}><title>{escape(name)}</title></polyline>'

    def band(self, points: Sequence[tuple[float, float, float]], number: int) -> str:
        """Draw intervals (rate, low, high) around the line of a number."""
        low = [(rate, least) for rate, least, _ in points]
        high = [(rate, most) for rate, _, most in reversed(points)]
        return f'<polygon class="band" points="{self._places([*low, *high])}" fill="{colour(number)}"/>'

    def svg(self, name: str, parts: Iterable[str]) -> str:
        """The chart of some parts; `name` is read out to those who cannot see it."""
        label = escape(name)
        return f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'

    def _places(self, points: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(rate):.1f},{self.y(share):.1f}" for rate, share in points)
