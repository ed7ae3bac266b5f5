"""Text that others wrote, made harmless before it is kept, logged or shown."""

from __future__ import annotations

from typing import TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)

INSTEAD = "?"
"""What stands where something was that is not shown."""


def plain(text: str) -> str:
    """The text with a question mark for each character that is not shown as itself.

    These are control characters (a database may refuse them, a terminal obeys them), those that turn the direction of
    writing (U+202E and its like, with which one name looks like another), line and paragraph separators.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else INSTEAD for c in text)


def plain_fields(struct: S) -> S:
    """A struct with every text of its own fields made plain; the same one where they are."""
    values = ((name, getattr(struct, name)) for name in struct.__struct_fields__)
    changed = {name: plain(value) for name, value in values if isinstance(value, str) and not value.isprintable()}
    return msgspec.structs.replace(struct, **changed) if changed else struct
