"""Who shares secrets with whom in a round's sum, who is left when devices drop out, and when the sum can be read.

A sum in buckets is a graph in pieces: nobody has a neighbour in another bucket, so each bucket's sum is read alone.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

from auricle.wire.secure_sum.kinds import degree_of, neighbours, threshold_of

Near = Mapping[int, Collection[int]]
"""Neighbours' seats by seat."""


FEWEST_OF_TWO = 8
"""Devices from which there are two buckets: of these none may be lost, so each can do without one of its four."""
FEWEST_OF_THREE = 9
"""Devices from which there are three."""


def bucket_count(devices: int, size: int) -> int:
    """Buckets of so many devices: of `size`, smaller ones where these would be fewer than three; 1 where size is 0."""
    if not size or devices < FEWEST_OF_TWO:
        return 1
    return max(devices // size, 3 if devices >= FEWEST_OF_THREE else 2)


def seated(names: Collection[str], size: int = 0) -> dict[str, tuple[int, list[int]]]:
    """A seat for each device, and its neighbours' seats; buckets and graphs are drawn from the system's own randomness.

    Parameters
    ----------
    names
        Known before anything is drawn, so that nobody chooses a bucket.
    size
        As of `bucket_count`; buckets differ by one device at most.

    Raises
    ------
    WireError
        There are fewer than three devices.
    """
    generator = random.SystemRandom()
    seats = {f"{seat:05d}": name for seat, name in enumerate(sorted(names), 1)}
    order, count = sorted(seats), bucket_count(len(seats), size)
    generator.shuffle(order)
    found: dict[str, tuple[str, ...]] = {}
    for place in range(count):
        bucket = order[place::count]
        found |= neighbours(bucket, degree_of(len(bucket)), generator)
    return {seats[text]: (int(text), [int(other) for other in near]) for text, near in found.items()}


def buckets_of(near: Near) -> list[list[int]]:
    """Seats of each bucket, in ascending order: the pieces of the graph."""
    found, left = [], set(near)
    while left:
        bucket, new = set[int](), {min(left)}
        while new:
            bucket |= new
            new = {other for seat in new for other in near[seat]} - bucket
        found.append(sorted(bucket))
        left -= bucket
    return found


def threshold_among(near: Near) -> int:
    """Shares that give a secret back, in a graph in which each has the same number of neighbours."""
    return threshold_of(min(len(others) for others in near.values()))


def remaining(near: Near, shared: Collection[int], threshold: int) -> set[int]:
    """Those who shared secrets with enough others who did: whoever has too few is left out, and so on.

    Nobody masks with one that is left out, so none of its secrets is ever needed.
    """
    left = set(shared)
    while True:
        lonely = {seat for seat in left if len(left.intersection(near[seat])) < threshold}
        if not lonely:
            return left
        left -= lonely


def readable(near: Near, part: Collection[int], came: Collection[int], said: Collection[int], threshold: int) -> bool:
    """Whether the sum can be read with the shares of those that revealed them.

    Of each device that came the seed is needed, of each that others masked with and that did not come the mask key.

    Parameters
    ----------
    near
        Of all in `part`.
    part, came, said
        Seats of those that others masked with, whose update came, and who revealed shares.
    """
    here = set(came)
    if not here:
        return False
    needed = [seat for seat in part if seat in here or here.intersection(near[seat])]
    return all(len(set(said).intersection(near[seat])) >= threshold for seat in needed)
