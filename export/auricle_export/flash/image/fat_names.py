"""Names in a FAT directory: eight letters and three, and the long ones beside them.

Source: Microsoft, "FAT: General Overview of On-Disk Format" 1.03, pages 22-31.
"""

from __future__ import annotations

import struct
from collections.abc import Container

LONG = 0x0F
"""Attribute of an entry that holds thirteen letters of a long name."""
LAST = 0x40
SIGNS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'()-@^_`{}~")
"""What a short name is written in."""
FORBIDDEN = frozenset('"*/:<>?\\|')
LONGEST_CHARACTERS = 255


def is_valid_name(name: str) -> bool:
    """Whether a file can have this name."""
    if not 0 < len(name) <= LONGEST_CHARACTERS or name.strip(". ") == "" or name[-1] in ". " or name[0] == " ":
        return False
    return all(" " <= sign < "\x7f" and sign not in FORBIDDEN for sign in name)


def exact(name: str) -> bytes | None:
    """The eleven bytes of a name that needs no long one; None: it does."""
    stem, dot, ending = name.partition(".")
    if not 0 < len(stem) <= 8 or len(ending) > 3 or bool(dot) != bool(ending):
        return None
    if not all(sign in SIGNS for sign in (stem + ending).encode("ascii", "replace")) or "?" in name:
        return None
    return stem.encode().ljust(8) + ending.encode().ljust(3)


def short(name: str, taken: Container[bytes]) -> bytes:
    """Eleven bytes that nothing else in a directory has: `FIRST-~1SH `."""
    stem, _, ending = name.upper().rpartition(".")
    if not stem:
        stem, ending = ending, ""
    letters = bytes(sign for sign in stem.encode("ascii", "replace") if sign in SIGNS)
    tail = bytes(sign for sign in ending.encode("ascii", "replace") if sign in SIGNS)[:3].ljust(3)
    for number in range(1, 1_000_000):
        mark = f"~{number}".encode()
        made = (letters[: 8 - len(mark)] + mark).ljust(8) + tail
        if made not in taken:
            return made
    raise AssertionError("a directory holds fewer than a million names")


def readable(raw: bytes, case: int = 0) -> str:
    """A short name as people write it; `case` says which of its two parts are in small letters (8 and 16)."""
    stem = (b"\xe5" + raw[1:8] if raw[0] == 0x05 else raw[:8]).rstrip()
    ending = raw[8:].rstrip()
    stem, ending = stem.lower() if case & 0x08 else stem, ending.lower() if case & 0x10 else ending
    return (stem + b"." + ending if ending else stem).decode("cp437")


def checksum(raw: bytes) -> int:
    """What binds the entries of a long name to their short one."""
    total = 0
    for sign in raw:
        total = ((total >> 1) | (total << 7 & 0x80)) + sign & 0xFF
    return total


def long_entries(name: str, raw: bytes) -> bytes:
    """The entries that stand before that of the short name `raw`, the last part of the name first."""
    units = name.encode("utf-16-le")
    if len(units) % 26:
        units = (units + b"\0\0").ljust(-(-(len(units) + 2) // 26) * 26, b"\xff")
    parts = [units[at : at + 26] for at in range(0, len(units), 26)]
    entries = []
    for number, part in reversed(list(enumerate(parts, 1))):
        order = number | (LAST if number == len(parts) else 0)
        entries.append(
            struct.pack("<B10sBBB12sH4s", order, part[:10], LONG, 0, checksum(raw), part[10:22], 0, part[22:])
        )
    return b"".join(entries)


def part_of_long(entry: bytes) -> tuple[int, int, bytes]:
    """Order, checksum and thirteen UTF-16 units of an entry of a long name."""
    order, first, _, _, check, second, _, third = struct.unpack("<B10sBBB12sH4s", entry)
    return order, check, first + second + third


def join(parts: list[bytes]) -> str:
    """A long name from its parts in the order of the name."""
    text = b"".join(parts).decode("utf-16-le", "replace")
    return text.split("\0", 1)[0]
