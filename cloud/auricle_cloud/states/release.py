"""What a release is, wherever one is spoken of: in the signed metadata, a table, an answer, or a rollout's plan."""

from __future__ import annotations

from msgspec import Struct


class Installable(Struct, frozen=True):
    """Something that may be installed."""

    path: str
    """Its name in the signed metadata."""
    kind: str
    """bundle or pack."""
    board: str
    """Empty, as `os` and `fleet`, for a pack."""
    os: str
    fleet: str
    version: str
    identity: str


class Released(Installable, frozen=True):
    """What the signed metadata says of a release."""

    sha256: str
    """Of the file."""
    size: int
    """In bytes."""
