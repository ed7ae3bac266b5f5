"""Who shares secrets with whom in a round's sum, who is left when devices drop out, and when the sum can be read."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

from auricle.wire.secure_sum.kinds import degree_of, neighbours, threshold_of

Near = Mapping[int, Collection[int]]
"""Neighbours' seats by seat."""


def seated(names: Collection[str]) -> dict[str, tuple[int, list[int]]]:
    """A seat for each device, and its neighbours' seats; the graph is drawn from the system's own randomness.

    Raises
    ------
    WireError
        There are fewer than three devices.
    """
    seats = {f"{seat:05d}": name for seat, name in enumerate(sorted(names), 1)}
    drawn = neighbours(seats, degree_of(len(seats)), random.SystemRandom())
    return {seats[text]: (int(text), [int(other) for other in near]) for text, near in drawn.items()}


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
