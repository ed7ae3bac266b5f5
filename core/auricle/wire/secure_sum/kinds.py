"""Who shares masks with whom, a k-regular graph drawn for each sum; and the kinds of values in its messages."""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from typing import Annotated

from msgspec import Meta

from auricle.errors import WireError
from auricle.wire.secure_sum.sizes import KEY_BYTES, MOST, SHARE_BYTES, TAG_BYTES

FEWEST_DEVICES = 3
"""Devices of a sum: of two each would know what the other sent."""
MOST_NEIGHBOURS = 30
"""What one message holds; enough for some thousand devices."""


def degree_of(count: int) -> int:
    """Neighbours that a device of a sum of `count` has, about 2 log2(n) + 10; everybody's where there are few."""
    return min(MOST_NEIGHBOURS, 2 * math.ceil((2 * math.log2(count) + 10) / 2))


def threshold_of(near: int) -> int:
    """Shares that give a secret back where each device has `near` neighbours: 60 %, in any case more than half."""
    return max(near // 2 + 1, math.ceil(0.6 * near - 1e-9))


def neighbours(names: Collection[str], degree: int, generator: random.Random) -> dict[str, tuple[str, ...]]:
    """Each device's neighbours in ascending order: a circle in random order, k / 2 to each side (Bell et al., 3).

    Parameters
    ----------
    names
        At least 3, each once.
    degree
        k, even; with fewer than k + 1 others everybody is a neighbour of everybody.
    generator
        Draws the circle: the system's own randomness where the sum hides something. The devices are known before, so
        that none of them chooses its place.

    Raises
    ------
    WireError
        There are fewer than 3 devices, a name twice, or the degree is odd or below 2.
    """
    circle = sorted(names)
    if len(circle) < FEWEST_DEVICES or len(set(circle)) < len(circle):
        raise WireError("A secure sum needs at least 3 devices, each once.")
    if degree < 2 or degree % 2:
        raise WireError(f"A device of a secure sum cannot have {degree} neighbours: name an even number from 2 on.")
    if degree >= len(circle) - 1:
        return {name: tuple(other for other in circle if other != name) for name in circle}
    order = list(circle)
    generator.shuffle(order)
    steps = [step for away in range(1, degree // 2 + 1) for step in (away, -away)]
    return {name: tuple(sorted(order[(i + s) % len(order)] for s in steps)) for i, name in enumerate(order)}


SumId = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z", max_length=32)]
"""Drawn for each attempt of a round: keys, shares and masks of another one are of no use."""
PublicKey = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
PrivateKey = PublicKey
BOX = 2 + 2 * SHARE_BYTES + TAG_BYTES
"""Bytes of a sealed box: a place, and a share of each of two secrets."""
Box = Annotated[bytes, Meta(min_length=BOX, max_length=BOX)]
ShareBytes = Annotated[bytes, Meta(min_length=SHARE_BYTES, max_length=SHARE_BYTES)]
Seat = Annotated[int, Meta(ge=1, le=MOST)]
"""A device's number in a sum: its neighbours learn no name."""
PublicKeys = Annotated[tuple[PublicKey, ...], Meta(max_length=MOST_NEIGHBOURS)]
Boxes = Annotated[tuple[Box, ...], Meta(max_length=MOST_NEIGHBOURS)]
SharesBytes = Annotated[tuple[ShareBytes, ...], Meta(max_length=MOST_NEIGHBOURS)]
Seats = Annotated[tuple[Seat, ...], Meta(max_length=MOST_NEIGHBOURS)]


def sum_name(sum_id: str, seat: int) -> str:
    """What a device is called inside a sum: names order as seats do, and bind every derived key to the sum."""
    return f"{sum_id}/{seat:05d}"
