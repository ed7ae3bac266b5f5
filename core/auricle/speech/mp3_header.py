"""What the first frames of an MP3 say (ISO/IEC 11172-3, section 2.4.1.3; the Xing and Info tags of encoders).

A decoder that is given something else looks for frames all through the file, and writes what it thinks to the terminal.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, replace

MOST_FRAMES = 400_000
"""Of the longest recording that is read, two hours at 48 kHz, and more."""
_WINDOW = 65_536
"""Bytes after an ID3 tag in which the first frame begins."""
_AFTER = (b"TAG", b"APE", b"LYR", b"ID3", b"\0\0\0")
"""What begins a tag behind the last frame, or the zeros that fill a file."""
_SAMPLES = {1: 384, 2: 1152, 3: 1152}
_KBIT = {
    (1, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (1, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (1, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Kilobits a second, by version and layer; versions 2 and 2.5 have the same, and layer 3 there those of layer 2."""
_HERTZ = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}


@dataclass(frozen=True, slots=True)
class Mp3:
    """Where the first frame is, and what a tag in it claims."""

    start: int
    claimed: int
    """Bytes from the first frame on; 0 where no tag says it."""

    counts_frames: bool
    """Whether a tag says how many frames there are; else a decoder estimates it."""

    is_whole: bool = True
    """Whether one frame follows the other up to the end or to a tag there."""


def is_mp3(head: bytes) -> bool:
    """Whether a file that begins so may be one."""
    return head[:3] == b"ID3" or bool(_frame_length(head[:4]))


def find_mp3(descriptor: int, size: int) -> Mp3 | None:
    """Find the first frame, which another frame or the file's end follows; None where no frame is found."""
    head = os.pread(descriptor, 10, 0)
    after = 0
    if head[:3] == b"ID3" and len(head) == 10:
        after = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=True))
    data = os.pread(descriptor, _WINDOW, after)
    place = data.find(b"\xff")
    while 0 <= place < len(data) - 4:
        length = _frame_length(data[place : place + 4])
        following = place + length
        if length and (after + following >= size or _frame_length(data[following : following + 4])):
            found = _tagged(data[place : place + length], after + place)
            return replace(found, is_whole=_is_whole(descriptor, found.start, size))
        place = data.find(b"\xff", place + 1)
    return None


def _is_whole(descriptor: int, place: int, size: int) -> bool:
    """Whether frame follows frame to the end, or for as long as any recording that is read."""
    for _ in range(MOST_FRAMES):
        if size - place < 4:
            return True
        head = os.pread(descriptor, 4, place)
        length = _frame_length(head)
        if not length:
            return head[:3] in _AFTER
        place += length
    return True


def _frame_length(head: bytes) -> int:
    """Bytes of the frame that begins so; 0 where none does."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return 0
    version, layer = head[1] >> 3 & 3, 4 - (head[1] >> 1 & 3)
    rate, hertz = head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or layer == 4 or not 0 < rate < 15 or hertz == 3:
        return 0
    newer = 1 if version == 3 else 2
    kbit = _KBIT[newer, layer if newer == 1 else min(layer, 2)][rate - 1]
    samples = 576 if newer == 2 and layer == 3 else _SAMPLES[layer]
    unit = 4 if layer == 1 else 1
    slots: int = samples // 8 * kbit * 1000 // _HERTZ[version][hertz] // unit + (head[2] >> 1 & 1)
    return slots * unit


def _tagged(frame: bytes, start: int) -> Mp3:
    place = max(frame.find(b"Xing"), frame.find(b"Info"))
    if place < 0 or len(frame) < place + 16:
        return Mp3(start, 0, counts_frames=False)
    flags, first, second = struct.unpack(">III", frame[place + 4 : place + 16])
    claimed = 0 if not flags & 2 else second if flags & 1 else first
    return Mp3(start, claimed, counts_frames=bool(flags & 1))
