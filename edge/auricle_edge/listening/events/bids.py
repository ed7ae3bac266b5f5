"""What devices of a home say to settle which of them answers, who wins, and who is passed over."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.errors import DataError
from auricle.wire.kinds import DeviceId

Word = Annotated[str, Meta(min_length=1, max_length=64)]
Identity = Annotated[str, Meta(pattern=r"^[0-9a-f]{12}\Z")]

MOST_SILENT = 10
"""Words in a row that a device may win and not answer before it is passed over."""
MOST_NAMES = 64
"""Devices that are remembered: no home has as many."""


class Bid(msgspec.Struct, frozen=True, tag_field="type", tag="bid"):
    """A device heard a word."""

    device: DeviceId
    word: Word
    id: Identity
    """Of the detection."""
    over_noise: Annotated[float, Meta(ge=0, le=120)]
    """Decibels by which the word stood out from the noise of its room."""


class Close(msgspec.Struct, frozen=True, tag_field="type", tag="close"):
    """Bids for this word are no longer taken."""

    device: DeviceId
    word: Word
    opened: Identity
    """Id of the bid that opened the round."""


class Answer(msgspec.Struct, frozen=True, tag_field="type", tag="answer"):
    """A device answers the word of its bid."""

    device: DeviceId
    word: Word
    id: Identity
    """Of its bid."""


Message = Bid | Close | Answer


class Signed(msgspec.Struct, frozen=True):
    """A message of a home whose devices share a key."""

    message: msgspec.Raw
    signature: Annotated[str, Meta(max_length=64)]
    """HMAC-SHA256 over the message's bytes, in hexadecimal."""


def encode(message: Message, key: bytes | None) -> bytes:
    """A message as it is published; signed where there is a key."""
    said = msgspec.json.encode(message)
    return said if key is None else msgspec.json.encode(Signed(msgspec.Raw(said), _signature(said, key)))


def decode(payload: bytes, key: bytes | None) -> Message:
    """Read a message.

    Raises
    ------
    MsgspecError, UnicodeDecodeError, RecursionError
        It is none (`UNDECODABLE`).
    DataError
        It is not signed with the key, where there is one.
    """
    if key is None:
        unsigned: Message = msgspec.json.decode(payload, type=Message)
        return unsigned
    signed = msgspec.json.decode(payload, type=Signed)
    if not hmac.compare_digest(_signature(bytes(signed.message), key).encode(), signed.signature.encode()):
        raise DataError("A bid is not signed by a device of this home.")
    message: Message = msgspec.json.decode(signed.message, type=Message)
    return message


def _signature(said: bytes, key: bytes) -> str:
    return hmac.digest(key, said, "sha256").hex()


def winner(bids: Iterable[Bid]) -> Bid:
    """The bid (of at least one) that stands out most from its noise; of equal ones that of the first device by name."""
    return min(bids, key=lambda bid: (-bid.over_noise, bid.device))


class Answerers:
    """Which devices of a home answer what they win, as one of them has seen it: nobody's word is taken for it."""

    def __init__(self) -> None:
        self._silent: dict[DeviceId, int] = {}
        """Words that a device won and did not answer, one after the other."""
        self._answered: dict[DeviceId, int] = {}
        """Devices that have answered, the longest ago first."""

    def answered(self, device: DeviceId) -> None:
        """It won and said so."""
        self._silent.pop(device, None)
        _latest(self._answered, device, 0)

    def silent(self, device: DeviceId) -> bool:
        """It won and did not say so; whether it is passed over from now on."""
        count = self._silent.get(device, 0) + 1
        _latest(self._silent, device, count)
        return count == MOST_SILENT

    def first(self, bids: Sequence[Bid]) -> Bid:
        """The winner of bids (of at least one); devices that were silent too often count only where all were."""
        return winner([bid for bid in bids if self._silent.get(bid.device, 0) < MOST_SILENT] or bids)

    def second(self, bids: Sequence[Bid], own: Bid) -> Bid:
        """Who answers where the first did not: of this device and those that have answered before.

        Names that never answered cost no further wait, however many there are.
        """
        first = self.first(bids)
        tried = [bid for bid in bids if bid.device in self._answered and bid.device not in (own.device, first.device)]
        return self.first([own, *tried])


def _latest(kept: dict[DeviceId, int], device: DeviceId, value: int) -> None:
    kept.pop(device, None)
    kept[device] = value
    if len(kept) > MOST_NAMES:
        del kept[next(iter(kept))]
