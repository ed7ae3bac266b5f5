"""What all answers have in common, and those that are about nothing in particular."""

from __future__ import annotations

from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True):
    """Base of all answers."""


class Done(Answer, frozen=True, kw_only=True):
    """It was done."""

    done: str


class File(Answer, frozen=True, kw_only=True):
    """Bytes to keep."""

    name: str
    content_type: str
    content: bytes


class Problem(Answer, frozen=True, kw_only=True):
    """Why a request was refused (RFC 9457)."""

    title: str
    status: int
    detail: str
    """One sentence that says what to do."""
    type: str = "about:blank"
