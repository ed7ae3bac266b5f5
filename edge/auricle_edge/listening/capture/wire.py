"""What the child writes to the listener: a header of fixed size and what it announces.

Header, little endian: magic, kind, flags, channels, rate (Hz), size, first, time. For sound, `size` counts frames
of interleaved int16, `first` is the number of its first frame since the source began (a jump tells of frames that were
dropped since the listener was too slow), `time` the monotonic second at which its last frame was read. Otherwise `size`
counts bytes of JSON. The child imports this, so it needs nothing but `struct`.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct("<4sBBHIIQd")
MAGIC = b"AUC1"
SOUND, OPENED, FAILED, ENDED, LISTED = range(1, 6)
LOST = 1
"""Flag: an unknown number of frames was lost before these."""
LONGEST_TEXT = 1 << 16
"""Bytes of JSON at most."""


def sound(data: bytes, channels: int, rate: int, first: int, lost: bool, time: float) -> bytes:
    """A frame of sound."""
    size = len(data) // (2 * channels)
    return HEADER.pack(MAGIC, SOUND, LOST if lost else 0, channels, rate, size, first, time) + data


def text(kind: int, payload: bytes, time: float) -> bytes:
    """A frame of JSON."""
    return HEADER.pack(MAGIC, kind, 0, 0, 0, len(payload), 0, time) + payload
