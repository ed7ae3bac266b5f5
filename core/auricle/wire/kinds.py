"""Kinds of values in messages, each with its bounds; what every message says; versions, and text that others wrote."""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from auricle.errors import DataError

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises about bytes that are not what they should be: a text that is not UTF-8 and a nesting too deep
have exceptions of their own. Every decoder of what comes from outside, or from a disk, catches all three."""

DeviceId = Annotated[str, Meta(pattern=r"^[a-z0-9-]{4,64}\Z", max_length=64)]
FleetName = Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,64}\Z", max_length=64)]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", max_length=64)]
Token = Annotated[str, Meta(pattern=r"^[ -~]*\Z", max_length=64)]
"""A name of printable ASCII: it ends up in logs and on terminals."""
Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_.+-]*\Z", max_length=32)]
"""Of a method, its options and its vectors."""
Short = Annotated[str, Meta(max_length=200)]
Count = Annotated[int, Meta(ge=0, le=1 << 40)]
Round = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
"""Fits a database's integer."""
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Rounded = Literal[0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000]
"""A coarse count: nothing between these numbers, and nothing above the last, can be said."""
Quarters = Annotated[int, Meta(ge=0, le=96)]
"""Whole quarter hours, a day at most."""
Decibels = Annotated[int, Meta(ge=-96, le=0, multiple_of=3)]
"""Of full scale, in steps of 3."""
Sensitivity = Annotated[int, Meta(ge=-2, le=2)]
"""Steps by which all thresholds are lower (above 0: more is heard, also wrongly) or higher than the device's own."""
TargetPath = Annotated[str, Meta(pattern=r"^(?!.*\.\.)[a-z0-9][a-z0-9._/-]*\Z", max_length=200)]
"""Name of a target in the signed metadata of updates: a relative path without `..`."""


SCHEMA = 1
"""Major version of the messages; another one is refused with `upgrade_required`."""


class Message(msgspec.Struct, frozen=True, tag_field="type", kw_only=True):
    """What every header says: schema, who, and a nonce that makes it unique."""

    fleet: FleetName
    device: DeviceId
    """The device that speaks or is spoken to; the coordinator's own name in messages to all."""
    boot: Token
    """Identity of the sender's process since it started."""
    schema: Annotated[int, Meta(ge=1, le=1000)] = SCHEMA
    nonce: Token = ""


S = TypeVar("S", bound=msgspec.Struct)

INSTEAD = "?"
"""What stands where something was that is not shown."""


def plain(text: str) -> str:
    """The text with a question mark for each character that is not shown as itself.

    These are control characters (a database may refuse them, a terminal obeys them), those that turn the direction of
    writing (U+202E and its like, with which one name looks like another), line and paragraph separators.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else INSTEAD for c in text)


def escape(text: str) -> str:
    """The plain text as HTML has it, between tags or in a quoted attribute."""
    import html  # a quarter of a megabyte of names, which no device needs

    return html.escape(plain(text))


def plain_fields(struct: S) -> S:
    """A struct with every text of its own fields made plain; the same one where they are."""
    values = ((name, getattr(struct, name)) for name in struct.__struct_fields__)
    changed = {name: plain(value) for name, value in values if isinstance(value, str) and not value.isprintable()}
    return msgspec.structs.replace(struct, **changed) if changed else struct


_VERSION = re.compile(
    r"(?P<release>\d{1,9}(\.\d{1,9}){0,5})((?P<letter>a|b|rc)(?P<number>\d{1,9}))?"
    r"(\.post(?P<post>\d{1,9}))?(\.dev(?P<dev>\d{1,9}))?(\+[a-z0-9.]{1,40})?"
)
LETTERS = {"a": 0, "b": 1, "rc": 2}

Key = tuple[tuple[int, ...], float, float, float, float]


def version_key(text: str) -> Key:
    """What versions are sorted by; what stands after a `+` does not count.

    Raises
    ------
    DataError
        It is not a version.
    """
    found = _VERSION.fullmatch(text)
    if found is None:
        raise DataError(f'"{text[:80]}" is not a version: write it like 1.2.0 or 1.2.0rc1.')
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    letter: float = LETTERS.get(found["letter"] or "", 3)
    if found["letter"] is None and found["post"] is None and found["dev"] is not None:
        letter = -1
    return (
        tuple(release),
        letter,
        int(found["number"] or 0),
        -1 if found["post"] is None else int(found["post"]),
        math.inf if found["dev"] is None else int(found["dev"]),
    )


WORKERS = tuple(f"worker-{number}" for number in range(8))
"""Users as which several coordinators of one database take updates in, beside each other."""
