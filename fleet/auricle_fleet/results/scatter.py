"""Points and small maps as SVG: models of devices in two dimensions, and where a model looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle_fleet.results.drawing import (
    COLOURS,
    GRID,
    INK,
    MARGIN,
    SOFT,
    WIDTH_PX,
    shade,
    svg_of,
    text,
    title_of,
)

SIDE, DOT_PX = 420.0, 6.0
"""Of the square in which points lie, and of a point."""
ACROSS, TILE_PX = 4, 150.0
"""Maps in a row, and how wide one is."""


def scatter_chart(title: str, subtitle: str, points: Mapping[str, NDArray[np.float64]], axes: tuple[str, str]) -> str:
    """Draw points (N, 2) of several names, each in its colour; both axes have one scale.

    Parameters
    ----------
    axes
        What is to the right, and what is upwards.
    """
    every = np.concatenate([*points.values(), np.zeros((1, 2))])
    middle, half = (every.max(axis=0) + every.min(axis=0)) / 2, float(np.ptp(every, axis=0).max()) / 2 or 1.0
    left, top = MARGIN + 24.0, 54.0
    parts = [title_of(title, subtitle)]
    parts.append(f'<rect x="{left}" y="{top}" width="{SIDE}" height="{SIDE}" fill="none" stroke="{GRID}"/>')
    parts.append(text(left + SIDE / 2, top + SIDE + 18, axes[0], "middle", SOFT))
    turned = f' transform="rotate(-90 {left - 8:.1f} {top + SIDE / 2:.1f})"'
    parts.append(text(left - 8, top + SIDE / 2, axes[1], "middle", SOFT, turn=turned))
    for number, (name, at) in enumerate(points.items()):
        colour, y = COLOURS[number % len(COLOURS)], top + 14 + 20 * number
        parts.append(f'<circle cx="{left + SIDE + 20}" cy="{y - 4}" r="{DOT_PX}" fill="{colour}"/>')
        parts.append(text(left + SIDE + 32, y, name, "start", INK))
        for across, up in (at - middle) / (1.1 * half):
            x, y = left + SIDE * (1 + across) / 2, top + SIDE * (1 - up) / 2
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{DOT_PX}" fill="{colour}" fill-opacity="0.8"/>')
    return svg_of(title, WIDTH_PX, max(top + SIDE + 30, top + 20 * len(points)) + MARGIN, parts)


def small_maps(
    title: str, subtitle: str, maps: Sequence[tuple[str, NDArray[np.float64]]], scale: float | None = None
) -> str:
    """Draw maps (A, B), A to the right and B upwards, darker the larger a value is.

    Parameters
    ----------
    scale
        The value that is darkest, of all maps; None: of each its own largest, and its least is lightest.
    """
    parts, top = [title_of(title, subtitle)], 58.0
    for start in range(0, len(maps), ACROSS):
        row = maps[start : start + ACROSS]
        height = max(TILE_PX * found.shape[1] / max(found.shape[0], 1) for _, found in row)
        height = min(max(height, 24.0), TILE_PX)
        for place, (name, found) in enumerate(row):
            left = MARGIN + place * (TILE_PX + 20)
            parts.append(text(left, top + 10, name, "start", INK))
            parts += _cells(found, left, top + 16, height, scale)
        top += height + 40
    return svg_of(f"{title}, {subtitle}", MARGIN * 2 + ACROSS * (TILE_PX + 20), top + MARGIN, parts)


def _cells(found: NDArray[np.float64], left: float, top: float, height: float, scale: float | None) -> list[str]:
    low, high = (0.0, scale) if scale is not None else (float(found.min()), float(found.max()))
    shares = np.clip((found - low) / ((high - low) or 1.0), 0, 1)
    wide, tall = TILE_PX / found.shape[0], height / found.shape[1]
    return [
        f'<rect x="{left + a * wide:.1f}" y="{top + height - (b + 1) * tall:.1f}" width="{wide:.2f}" '
        f'height="{tall:.2f}" fill="{shade(float(shares[a, b]))}"/>'
        for a, b in np.ndindex(*found.shape)
    ]
