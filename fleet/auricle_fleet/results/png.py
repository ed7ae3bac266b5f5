"""Pictures as PNG, from SVG, by resvg (the extra `png`), with the fonts of the machine."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from auricle.errors import extra_command
from auricle_fleet.results.drawing import FONTS

ZOOM = 2.0
"""Pixels a unit of the SVG: sharp in print and on fine screens."""
NO_FONTS = "Pictures are SVG only: PNG needs a font, and this machine has none (e.g. apt install fonts-dejavu-core)."
_A_LETTER = (
    f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><text x="5" y="30" font-family="{FONTS}" '
    'font-size="24">M</text></svg>'
)


def why_not() -> str:
    """Why there can be no PNG here, a sentence that says what to do; empty where there can be."""
    drawn = _render()
    if drawn is None:
        return f"Pictures are SVG only: for PNG, too, {extra_command('png')}."
    return "" if drawn(_A_LETTER) != drawn(_A_LETTER.replace(">M<", "><")) else NO_FONTS


def png_of(svg: str) -> bytes:
    """Draw an SVG as PNG, `ZOOM` pixels a unit. ImportError without the extra: ask `why_not` before."""
    drawn = _render()
    if drawn is None:
        raise ImportError(why_not())
    return drawn(svg)


def _render() -> Callable[[str], bytes] | None:
    try:
        package = importlib.import_module("resvg_py")
    except ImportError:
        return None
    return lambda svg: cast("bytes", package.svg_to_bytes(svg_string=svg, zoom=ZOOM))
