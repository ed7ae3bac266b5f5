"""Types that operations share: what they take, with its limits, and what their answers have in common."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from auricle.wire.kinds import DeviceId

Mode = Literal["sync", "async"]
Form = Literal["safetensors", "raw"]
Limit = Annotated[int, Meta(ge=1, le=1000, description="Most rows to show.")]
Number = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Id = Annotated[int, Meta(ge=0, le=(1 << 31) - 1, description="An event's number.")]
PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]*\Z"
"""Texts end up in logs, on terminals and on the page: no control characters, and none that turn the direction of
writing or take no room, with which one name looks like another. Joiners, which some scripts need, are text."""
Reason = Annotated[str, Meta(max_length=200, pattern=PRINTABLE)]
Label = Annotated[str, Meta(max_length=200, pattern=PRINTABLE, description="A name for people.")]
Search = Annotated[
    str, Meta(max_length=200, pattern=PRINTABLE, description="Part of a name or label, in small letters or capitals.")
]
NAME = r"^[A-Za-z0-9_.-]{1,64}\Z"
Name = Annotated[str, Meta(pattern=NAME, max_length=64)]
Names = Annotated[list[DeviceId], Meta(min_length=1, max_length=1000, description="All of them or none.")]
Rounds = Annotated[int, Meta(ge=1, le=10_000)]
Idle = Annotated[int, Meta(ge=1, le=1_000_000, description="Devices that must be ready.")]
AT = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|always)\Z"
At = Annotated[str, Meta(pattern=AT, description="HH:MM, or always.")]
Days = Annotated[float, Meta(gt=0, le=36_500, description="Until it expires.")]

HearingHours = Annotated[
    float, Meta(gt=0, le=100_000, description="Hours of reports of hearing that are needed on both sides.")
]

PATTERNS: dict[str, str] = {
    NAME: "1 to 64 letters, digits, dots, hyphens and underscores",
    AT: "HH:MM, or always",
    PRINTABLE: "text on one line",
    get_args(DeviceId)[1].pattern: "a device's name: 4 to 64 small letters, digits and hyphens",
}
"""What a text has to be, in words."""


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
