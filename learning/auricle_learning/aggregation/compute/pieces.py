"""Columns that are worked on together: pieces of layers, which depend on nothing but the layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Spans = Sequence[tuple[slice, ...]]
"""The spans of each layer in the flat vector."""
PIECE = 8192
"""Columns that are worked on at a time: their sums stay near a core, and a row is read in a few pages."""


@dataclass(frozen=True)
class Piece:
    """Some columns of one layer."""

    layer: int
    start: int
    stop: int

    @property
    def columns(self) -> slice:
        """Their place in the flat vector."""
        return slice(self.start, self.stop)


def pieces_of(spans: Spans, width: int) -> list[Piece]:
    """Cut every layer's spans into pieces of at most `width` columns, in the order of the layers."""
    return [
        Piece(layer, start, min(start + width, span.stop))
        for layer, parts in enumerate(spans)
        for span in parts
        for start in range(span.start, span.stop, width)
    ]


def neighbours(pieces: list[Piece]) -> list[list[Piece]]:
    """Group pieces that lie side by side, `PIECE` columns at most: narrow layers are read together."""
    groups: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda one: (one.start, one.stop)):
        last = groups[-1] if groups else []
        if last and last[-1].stop == piece.start and piece.stop - last[0].start <= PIECE:
            last.append(piece)
        else:
            groups.append([piece])
    return groups
