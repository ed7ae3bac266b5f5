"""Columns of the uploads that are worked on at a time, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Spans = Sequence[tuple[slice, ...]]
"""The spans of each layer in the flat vector."""


@dataclass(frozen=True)
class Piece:
    """Some columns of one layer."""

    layer: int
    start: int
    stop: int

    @property
    def width(self) -> int:
        """How many columns."""
        return self.stop - self.start


def pieces_of(spans: Spans, width: int) -> list[Piece]:
    """Cut every layer's spans into pieces of at most `width` columns, in the order of the layers."""
    return [
        Piece(layer, start, min(start + width, span.stop))
        for layer, parts in enumerate(spans)
        for span in parts
        for start in range(span.start, span.stop, width)
    ]
