"""What a FLAC claims to hold, and what its frames hold (RFC 9639, sections 8.2 and 9.1).

A decoder stops where the first block says, and says nothing of frames behind that. So the last two frames are looked
at: each names the place of its first sample, and how many it has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

_MARK = b"fLaC\0\0\0\x22"
"""With which a stream begins: the mark, and the first block's kind and length."""
_TOTAL = 18
"""Byte at which the eight stand whose last 36 bits are the samples of the stream."""
_MOST_SAMPLES = (1 << 36) - 1
_SYNC = (b"\xff\xf8", b"\xff\xf9")
"""With which a frame begins: of frames with one number of samples, and with several."""
_WINDOW = 1 << 20
"""Bytes that are looked at together; the last two frames of speech are in the last of them."""
_MOST_BLOCKS = 128
_LONGEST_HEADER = 16
"""Bytes."""
_BITS = 0x0E
"""Of the fourth byte: the width of a sample, which all frames share."""
_TAG_BYTES = 128
"""Of an ID3v1 tag behind the last frame."""


@dataclass(frozen=True, slots=True)
class Flac:
    """The streams of a file, and the samples of the first one."""

    streams: int
    claimed: int
    """Samples that the first block claims; 0: its writer did not know."""

    samples: int
    """Up to the end of the last whole frame; 0 where no frames are seen that follow each other."""

    is_ended: bool
    """Whether the last frame is whole; it is not looked at where no less is claimed than there is."""

    patch: tuple[int, bytes]
    """Where to put which bytes, so that a decoder reads these samples."""


@dataclass(frozen=True, slots=True)
class _Frame:
    place: int
    first: int
    """Number of its first sample."""
    end: int


def read_flac(descriptor: int, start: int, size: int) -> Flac:
    """Look at a file whose first stream begins at byte `start`."""
    field = int.from_bytes(os.pread(descriptor, 8, start + _TOTAL), "big")
    claimed = field & _MOST_SAMPLES
    streams = 0
    for place in range(start, size, _WINDOW):
        streams += os.pread(descriptor, _WINDOW + len(_MARK) - 1, place).count(_MARK)
    last, data = _last_frame(descriptor, _first_frame(descriptor, start), size)
    is_ended = claimed >= last.end or _crc(data, 0x8005, 16) == 0
    samples = min(last.end if is_ended else last.first, _MOST_SAMPLES)
    patch = (start + _TOTAL, (field - claimed + samples).to_bytes(8, "big"))
    return Flac(max(1, streams), claimed, samples, is_ended, patch)


def _first_frame(descriptor: int, start: int) -> int:
    """Byte behind the blocks before the sound."""
    place = start + 4
    for _ in range(_MOST_BLOCKS):
        head = os.pread(descriptor, 4, place)
        place += 4 + int.from_bytes(head[1:], "big")
        if not head or head[0] & 0x80:
            break
    return place


def _last_frame(descriptor: int, first: int, size: int) -> tuple[_Frame, bytes]:
    """The last frame and its bytes; one without samples where no frames follow each other."""
    start = max(first, size - _WINDOW)
    like, data = os.pread(descriptor, _LONGEST_HEADER, first), os.pread(descriptor, max(0, size - start), start)
    if data[-_TAG_BYTES:].startswith(b"TAG"):
        data = data[:-_TAG_BYTES]
    frames = list(_frames(data, like.ljust(_LONGEST_HEADER, b"\0")))
    ends = {frame.end for frame in frames}
    last = next((each for each in reversed(frames) if each.first in ends or start + each.place == first), None)
    return (last, data[last.place :]) if last else (_Frame(0, 0, 0), b"")


def _frames(data: bytes, like: bytes) -> Iterator[_Frame]:
    """Headers of frames of the same stream as one that begins `like` this."""
    if like[:2] not in _SYNC:
        return
    nominal = _block(like)
    for match in re.finditer(re.escape(like[:2]), data):
        place = match.start()
        head = data[place : place + _LONGEST_HEADER].ljust(_LONGEST_HEADER, b"\0")
        if (head[2] ^ like[2]) & 0x0F or (head[3] ^ like[3]) & _BITS or head[3] & 1:
            continue
        number, length = _number(head)
        block = _block(head)
        extra = {6: 1, 7: 2}.get(head[2] >> 4, 0) + {12: 1, 13: 2, 14: 2}.get(head[2] & 0x0F, 0)
        whole = head[: 4 + length + extra + 1]
        if length and block and _crc(whole, 0x07, 8) == 0:
            sample = number if head[1] & 1 else number * nominal
            yield _Frame(place, sample, sample + block)


def _number(head: bytes) -> tuple[int, int]:
    """The frame's number, coded like UTF-8 in up to seven bytes, and how many bytes; (0, 0) if it is not valid."""
    ones = next((bit for bit in range(8) if not head[4] & 0x80 >> bit), 8)
    if ones in (1, 8):
        return 0, 0
    value = head[4] & (0x7F >> ones)
    for byte in head[5 : 4 + ones]:
        value = value << 6 | byte & 0x3F
    return value, max(1, ones)


def _block(head: bytes) -> int:
    """Samples of a frame; 0 if its header is not valid."""
    if not (code := head[2] >> 4):
        return 0
    if code in (6, 7):
        after = 4 + _number(head)[1]
        return int.from_bytes(head[after : after + code - 5], "big") + 1
    return 192 if code == 1 else 576 << (code - 2) if code < 6 else 256 << (code - 8)


def _crc(data: bytes, polynomial: int, bits: int) -> int:
    """The check of a frame, or of its header; 0 where the check's own bytes are the last ones and right."""
    table, value, mask = _table(polynomial, bits), 0, (1 << bits) - 1
    for byte in data:
        value = (value << 8 & mask) ^ table[(value >> (bits - 8)) ^ byte]
    return value


@cache
def _table(polynomial: int, bits: int) -> tuple[int, ...]:
    """What each byte does to the check."""
    values = []
    for byte in range(256):
        value = byte << (bits - 8)
        for _ in range(8):
            value = (value << 1) ^ (polynomial if value >> (bits - 1) else 0)
            value &= (1 << bits) - 1
        values.append(value)
    return tuple(values)
