"""What the commands of `auricle cloud enrol` answer."""

from __future__ import annotations

from auricle_cloud.operations.answer import Answer


class Made(Answer, frozen=True, kw_only=True):
    """A new authority."""

    pin: str
    """SHA-256 of the root's certificate, which every device is told."""
    folder: str


class Written(Answer, frozen=True, kw_only=True):
    """Files of a server or broker."""

    folder: str
    reloaded: bool = False
