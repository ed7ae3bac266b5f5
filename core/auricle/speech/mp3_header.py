"""What the frames of an MP3 say (ISO/IEC 11172-3, section 2.4.1.3; the Xing, Info and VBRI tags of encoders).

A decoder that is given something else looks for frames all through the file, and writes what it thinks to the terminal;
without a tag it guesses from the first frame how many there are, and stops there. So all frames are counted, and a
decoder is given these alone, behind a tag with their number where there is none or another.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MOST_FRAMES = 400_000
"""Of the longest recording that is read, two hours at 48 kHz, and more."""
_WINDOW = 65_536
"""Bytes after an ID3 tag in which the first frame begins."""
_MOST_PIECES = 64
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
_SIDE = {(True, False): 32, (True, True): 17, (False, False): 17, (False, True): 9}
"""Bytes of a frame's side information, by whether it is of MPEG-1 and of one channel."""
_TAG_BYTES = 40
"""Of the tag in a frame that is put before the others, and some more."""


@dataclass(frozen=True, slots=True)
class Mp3:
    """Where the frames are, how many, and what a tag in the first claims."""

    start: int
    claimed: int
    """Bytes from the first frame on; 0 where no tag says it."""

    frames: int
    """How many there are, a tag's own not counted."""

    pieces: tuple[tuple[int, int], ...]
    """First and last byte, exclusive, of each run of frames: tags lie between them."""

    tag: bytes = b""
    """A frame with a tag that counts the others, to be put before them; empty: their own does."""

    is_whole: bool = True
    """Whether one frame follows the other up to the end or to a tag there."""

    is_ended: bool = True
    """Whether the last frame is whole."""


def is_mp3(head: bytes) -> bool:
    """Whether a file that begins so may be one."""
    return head[:3] == b"ID3" or bool(_frame_length(head[:4]))


def find_mp3(descriptor: int, size: int) -> Mp3 | None:
    """Find the first frame, which another frame or the file's end follows, and count; None where no frame is found."""
    after = id3_length(os.pread(descriptor, 10, 0))
    data = os.pread(descriptor, _WINDOW, after)
    place = data.find(b"\xff")
    while 0 <= place < len(data) - 4:
        length = _frame_length(data[place : place + 4])
        following = place + length
        if length and (after + following >= size or _frame_length(data[following : following + 4])):
            return _count_frames(descriptor, data[place : place + length], after + place, size)
        place = data.find(b"\xff", place + 1)
    return None


def _count_frames(descriptor: int, first: bytes, start: int, size: int) -> Mp3:
    runs = list(_runs(descriptor, start, size))
    frames, is_whole = sum(count for _, _, count, _ in runs), all(whole for *_, whole in runs)
    end = runs[-1][1]
    is_ended = end + _frame_length(os.pread(descriptor, 4, end)) <= size or frames >= MOST_FRAMES
    pieces = [(begin, end) for begin, end, count, _ in runs if count]
    tag = _tag_of(first)
    if tag is not None:
        frames -= 1
        if tag[0] >= frames:
            return Mp3(start, tag[1], frames, tuple(pieces), is_whole=is_whole, is_ended=is_ended)
        pieces[0] = (start + len(first), pieces[0][1])
    total = sum(end - begin for begin, end in pieces)
    return Mp3(start, 0, frames, tuple(pieces), _tag(first, frames, total), is_whole=is_whole, is_ended=is_ended)


def _runs(descriptor: int, place: int, size: int) -> Iterator[tuple[int, int, int, bool]]:
    """Where each run of frames begins and ends, how many whole ones there are, and whether it ends as one does."""
    total = 0
    for _ in range(_MOST_PIECES):
        begin, count, is_cut = place, 0, False
        while total < MOST_FRAMES and (length := _frame_length(head := os.pread(descriptor, 12, place))):
            if place + length > size:
                is_cut = True
                break
            place, count, total = place + length, count + 1, total + 1
        is_end = is_cut or total >= MOST_FRAMES or size - place < 4
        beyond = 0 if is_end else _tag_length(descriptor, head, place, size)
        yield begin, place, count, is_end or beyond > 0
        if is_end or not beyond or place + beyond >= size:
            return
        place += beyond


def _tag_length(descriptor: int, head: bytes, place: int, size: int) -> int:
    """Bytes of the tag, or of the zeros, that stand between frames or behind the last; 0 where it is none of these."""
    if head[:3] == b"TAG":
        return 128
    if head[:3] == b"ID3":
        return id3_length(os.pread(descriptor, 10, place))
    if head[:8] == b"APETAGEX":
        _, length, _, flags = struct.unpack("<IIII", os.pread(descriptor, 24, place)[8:].ljust(16, b"\0"))
        return 32 + (length if flags & 1 << 29 else 0)
    if head[:3] in (b"LYR", b"APE"):
        return size - place
    data = os.pread(descriptor, _WINDOW, place)
    zeros = len(data) - len(data.lstrip(b"\0"))
    return zeros if zeros >= 3 else 0


def id3_length(head: bytes) -> int:
    """Bytes of an ID3v2 tag that begins so; 0 where none does."""
    if head[:3] != b"ID3" or len(head) < 10:
        return 0
    size = sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))
    return 10 + size + (10 if head[5] & 0x10 else 0)


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


def _tag_of(frame: bytes) -> tuple[int, int] | None:
    """Frames and bytes that a tag in a frame claims, 0 where it does not say; None where the frame has no tag."""
    place = max(frame.find(b"Xing"), frame.find(b"Info"))
    if place >= 0 and len(frame) >= place + 16:
        flags, first, second = struct.unpack(">III", frame[place + 4 : place + 16])
        return (first if flags & 1 else 0), (0 if not flags & 2 else second if flags & 1 else first)
    place = frame.find(b"VBRI")
    if place >= 0 and len(frame) >= place + 18:
        claimed, frames = struct.unpack(">II", frame[place + 10 : place + 18])
        return frames, claimed
    return None


def _tag(first: bytes, frames: int, total: int) -> bytes:
    """A frame of the first one's kind that says how many frames and bytes follow; it holds no sound."""
    side = _SIDE[first[1] >> 3 & 3 == 3, first[3] >> 6 == 3]
    for rate in range(1, 15):
        head = bytes((0xFF, first[1] | 1, rate << 4 | first[2] & 0x0C, first[3]))
        length = _frame_length(head)
        if length >= 4 + side + _TAG_BYTES:
            break
    tag = b"Xing" + struct.pack(">III", 3, frames, total + length)
    return (head + bytes(side) + tag).ljust(length, b"\0")
