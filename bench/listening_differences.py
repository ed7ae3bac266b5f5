"""After less before, owner by owner and fleet by fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.listening_result import SIDES, Fleet

DRAWS = 4_000
LEVEL = 95.0


@dataclass(frozen=True)
class Difference:
    """Of shares, after less before."""

    mean: float
    low: float
    high: float
    """95 %: owners are drawn again and again, with replacement (percentile bootstrap)."""
    better: int
    """Owners of whom more is heard."""
    worse: int
    owners: int


def by_owner(fleets: Sequence[Fleet], listener: str, place: int) -> Difference:
    """Of one listener at one of the fixed rates; an owner in several fleets counts once, with the mean.

    Parameters
    ----------
    place
        Of the rate among `AtRate`s.
    """
    found: dict[str, list[float]] = {}
    for fleet in fleets:
        before, after = (fleet.side(when, listener).owners for when in SIDES)
        for owner, share in _less(after, before, place).items():
            found.setdefault(owner, []).append(share)
    each = np.array([float(np.mean(found[owner])) for owner in sorted(found)])
    rng = np.random.default_rng(0)
    means = each[rng.integers(len(each), size=(DRAWS, len(each)))].mean(axis=1)
    low, high = np.percentile(means, (50 - LEVEL / 2, 50 + LEVEL / 2)).tolist()
    return Difference(float(each.mean()), low, high, int((each > 1e-9).sum()), int((each < -1e-9).sum()), len(each))


def _less(
    after: Mapping[str, tuple[float, ...]], before: Mapping[str, tuple[float, ...]], place: int
) -> dict[str, float]:
    return {owner: after[owner][place] - before[owner][place] for owner in before}


def of_fleets(fleets: Sequence[Fleet], listener: str, place: int) -> list[float]:
    """Of all words of each fleet."""
    return [
        fleet.side(SIDES[1], listener).points[place].share - fleet.side(SIDES[0], listener).points[place].share
        for fleet in fleets
    ]
