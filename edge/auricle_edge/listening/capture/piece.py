"""What the sources of the child have in common."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Piece(NamedTuple):
    """Sound as it was read."""

    data: bytes
    """Interleaved int16, little endian."""
    lost: bool = False
    """Whether an unknown amount was lost before it."""


class Refusal(Exception):  # noqa: N818 - what a device does
    """A source that cannot be opened or read now; `reason` is counted, the sentence is for the user."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Origin(Protocol):
    """An open source."""

    device: str
    """Its name, for the user."""
    rate: int
    """Of what was read last, Hz."""
    channels: int
    waits: bool
    """Whether it waits for a slow listener; a microphone cannot, and its sound is dropped."""

    def read(self) -> Piece | None:
        """Wait for the next piece; None at the end; Refusal when the device fails."""


RATES = (48_000, 44_100, 32_000, 16_000, 96_000, 22_050, 8_000)
"""Hz at which a device is tried when it refuses its own."""


def rates(wanted: int | None, native: int | None) -> list[int]:
    """The rates at which to open a device, in order."""
    return list(dict.fromkeys(rate for rate in (wanted, native, *RATES) if rate))


def counts(wanted: int | None, most: int | None) -> list[int]:
    """The numbers of channels with which to open a device, in order."""
    return list(dict.fromkeys(count for count in (wanted, min(2, most or 2), 1, 2, most) if count))
