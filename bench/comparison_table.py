"""What tables of measurements share: columns, and how many times as long a peer takes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence


def ratio(slow: Sequence[Sequence[float]], fast: Sequence[Sequence[float]]) -> dict[str, float]:
    """How many times as long one takes as the other, from medians of the same round: median, least and most."""
    each = [statistics.median(a) / statistics.median(b) for a, b in zip(slow, fast, strict=True)]
    return {"median": statistics.median(each), "least": min(each), "most": max(each)}


def times(by: Mapping[str, float]) -> str:
    """Write a ratio."""
    return f"{by['median']:.2f} ({by['least']:.2f}-{by['most']:.2f})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as what is in them; the first one to the left."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = (c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        return "  ".join(cells).rstrip()

    return "\n".join([line(header), *(line(row) for row in rows)])
