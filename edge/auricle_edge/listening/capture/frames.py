"""The listener's side of `child_parts`: bytes of the child into checked frames."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from auricle.errors import WireError
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.listening.capture.child_parts import (
    ENDED,
    FAILED,
    FINDING,
    HEADER,
    LISTED,
    LONGEST_TEXT,
    LOST,
    MAGIC,
    OPENED,
    SOUND,
)


class Opened(msgspec.Struct, frozen=True):
    """What the child opened."""

    device: str
    rate: int
    channels: int


class Failed(msgspec.Struct, frozen=True):
    """Why the child ends."""

    reason: str
    sentence: str


class FileFinding(msgspec.Struct, frozen=True):
    """What is wrong with a file of a recorded source: `auricle.speech.sound_faults.Finding`."""

    reason: str
    sentence: str
    is_used: bool


class Device(msgspec.Struct, frozen=True):
    """A microphone as `auricle edge devices` shows it."""

    name: str
    source: str
    """What to write as `source` in the settings."""
    alsa: str | None
    """Card id, e.g. `hw:CARD=Device,DEV=0`."""
    usb: str | None
    """Vendor and product, e.g. `0d8c:0014`."""
    channels: int | None
    rate: int | None
    """Native, Hz."""
    default: bool


@dataclass(frozen=True, slots=True)
class Sound:
    """A frame of sound as the device gave it."""

    data: bytes
    """Interleaved int16, little endian."""
    rate: int
    channels: int
    first: int
    """Number of its first sample frame since the source began."""
    lost: bool
    time: float

    @property
    def size(self) -> int:
        """Sample frames."""
        return len(self.data) // (2 * self.channels)

    @property
    def after(self) -> int:
        """Number of the first sample frame after it."""
        return self.first + self.size


class Ended(msgspec.Struct, frozen=True):
    """The recording is over."""


Frame = Sound | Opened | Failed | FileFinding | Ended | list[Device]
_TEXTS = {OPENED: Opened, FAILED: Failed, FINDING: FileFinding, ENDED: Ended, LISTED: list[Device]}


class FrameReader:
    """Puts frames together; holds at most one second of sound."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete with these bytes.

        Raises
        ------
        WireError
            The child did not write them.
        """
        self._bytes += data
        frames: list[Frame] = []
        while len(self._bytes) >= HEADER.size:
            length = HEADER.size + _payload(self._bytes)
            if len(self._bytes) < length:
                break
            frames.append(_frame(bytes(self._bytes[:length])))
            del self._bytes[:length]
        return frames


def _payload(head: bytearray) -> int:
    """Bytes that follow this header; WireError when it is not a header."""
    magic, kind, _, channels, rate, size, _, seen = HEADER.unpack_from(head)
    if magic == MAGIC and 0 <= seen <= time.monotonic() + 1:
        if kind == SOUND and 1 <= channels <= 32 and 4000 <= rate <= 384_000 and 0 < size <= rate:
            return int(size) * int(channels) * 2
        if kind in _TEXTS and size <= LONGEST_TEXT:
            return int(size)
    raise WireError("The capture child wrote something that is not a frame of sound.")


def _frame(data: bytes) -> Frame:
    _, kind, flags, channels, rate, _, first, seen = HEADER.unpack_from(data)
    payload = data[HEADER.size :]
    if kind == SOUND:
        return Sound(payload, rate, channels, first, bool(flags & LOST), seen)
    try:
        answer: Frame = msgspec.json.decode(payload, type=_TEXTS[kind])
    except UNDECODABLE as error:
        raise WireError(f"The capture child wrote a message that cannot be read: {error}.") from error
    return answer
