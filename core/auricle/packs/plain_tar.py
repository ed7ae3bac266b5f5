"""Tar archives of plain files only, every header looked at before anything else parses it.

Extended headers (pax), GNU's long names, sparse files, links, devices and folders are refused: they can make a parser
loop, or take what memory their length claims. The standard library only, for the guard of a device brings this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, NamedTuple, Protocol

RECORD_BYTES = 512
BLOCK_BYTES = 1 << 20
"""Bytes that are read at once."""
MOST_FILES = 8192
_OCTAL = re.compile(rb" *[0-7]{1,12}[ \0]*")
_OTHER_NUMBERS = [(100, 108), (108, 116), (116, 124), (136, 148), (329, 337), (337, 345)]
"""Mode, owner, group, time and device numbers: where they are not numbers, other readers see no more files."""
_OCTAL_OR_BLANK = re.compile(rb" *[0-7]{0,12}[ \0]*")
_POSIX, _GNU = b"ustar\x0000", b"ustar  \0"


class NotPlainError(ValueError):
    """Something is not an archive, or holds anything but plain files."""


class Readable(Protocol):
    """Where an archive comes from."""

    def read(self, size: int = ..., /) -> bytes:
        """At most so many bytes; none at the end."""


class Member(NamedTuple):
    """One file's header."""

    name: str
    size: int
    """Bytes."""


def members(archive: Readable, most: int = MOST_FILES) -> Iterator[tuple[Member, Iterator[bytes]]]:
    """Each file of an archive with its content in blocks; what is not taken of it is read over.

    Raises
    ------
    NotPlainError
        A header is not that of a plain file, or the archive is cut short. Only what stands before it was read.
    """
    for _ in range(most + 1):
        header = _read(archive, RECORD_BYTES)
        if header is None:
            return
        member = parse_header(header)
        if member is None:
            return
        content = _content(archive, member)
        yield member, content
        for _ in content:
            """Read over."""
    raise NotPlainError(f"it holds more than {most} files")


def require_plain(archive: IO[bytes]) -> None:
    """Look at every header of an archive that can be sought in, and go back to its start.

    Raises
    ------
    NotPlainError
        As `members`.
    """
    end = archive.seek(0, 2)
    at, count = 0, 0
    while at < end:
        archive.seek(at)
        header = _read(archive, RECORD_BYTES)
        member = None if header is None else parse_header(header)
        if member is None:
            break
        count += 1
        at += RECORD_BYTES + _padding(member.size)
        if at > end:
            raise NotPlainError("it is cut short")
        if count > MOST_FILES:
            raise NotPlainError(f"it holds more than {MOST_FILES} files")
    archive.seek(0)


def parse_header(header: bytes) -> Member | None:
    """The file that 512 bytes describe; None for the zeros at the end.

    Raises
    ------
    NotPlainError
        They describe anything else.
    """
    if not any(header):
        return None
    if header[257:265] not in (_POSIX, _GNU) or _number(header[148:156]) != _sum(header):
        raise NotPlainError("it is not a tar archive, or a header of it is damaged")
    name = header[:100].split(b"\0")[0]
    above = header[345:500].split(b"\0")[0] if header[257:265] == _POSIX else b""
    path = (above + b"/" if above else b"") + name
    try:
        told = path.decode()
    except UnicodeDecodeError as error:
        raise NotPlainError("it holds a file whose name is not text") from error
    if header[156:157] not in (b"0", b"\0") or not name or path.endswith(b"/") or any(header[157:257]):
        raise NotPlainError(f"it holds {told!r}, which is not a plain file")
    if header[257:265] == _GNU and any(header[345:500]):
        raise NotPlainError(f"the header of {told!r} has fields that others would read as part of its name")
    if not all(_OCTAL_OR_BLANK.fullmatch(header[begin:end]) for begin, end in _OTHER_NUMBERS):
        raise NotPlainError(f"the header of {told!r} has a field that is not a number")
    return Member(told, _number(header[124:136]))


def _sum(header: bytes) -> int:
    """The checksum: its own eight bytes count as spaces."""
    return sum(header[:148]) + 8 * 0x20 + sum(header[156:])


def _number(field: bytes) -> int:
    if not _OCTAL.fullmatch(field):
        raise NotPlainError("a header of it has a field that is not a number")
    return int(field.strip(b" \0"), 8)


def _padding(size: int) -> int:
    return size + -size % RECORD_BYTES


def _content(archive: Readable, member: Member) -> Iterator[bytes]:
    left = member.size
    while left:
        block = archive.read(min(BLOCK_BYTES, left))
        if not block:
            raise NotPlainError("it is cut short")
        left -= len(block)
        yield block
    if _read(archive, -member.size % RECORD_BYTES) is None and member.size % RECORD_BYTES:
        raise NotPlainError("it is cut short")


def _read(archive: Readable, size: int) -> bytes | None:
    """Exactly so many bytes; None at the end. NotPlainError: it ends amid them."""
    read = b""
    while len(read) < size:
        more = archive.read(size - len(read))
        if not more:
            if read:
                raise NotPlainError("it is cut short")
            return None
        read += more
    return read
