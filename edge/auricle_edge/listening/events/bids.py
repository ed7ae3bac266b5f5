"""What devices of a home say to settle which of them answers, and who wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.wire.kinds import DeviceId

Word = Annotated[str, Meta(min_length=1, max_length=64)]
Identity = Annotated[str, Meta(pattern=r"^[0-9a-f]{12}\Z")]


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


Message = Bid | Close


def winner(bids: Sequence[Bid]) -> Bid:
    """The bid (of at least one) that stands out most from its noise; of equal ones that of the first device by name."""
    return min(bids, key=lambda bid: (-bid.over_noise, bid.device))
