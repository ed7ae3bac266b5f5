"""When a round closes on a clock that only counts: by the coordinator's own rule, without waiting for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from auricle_cloud.settings import RunSettings


@dataclass(frozen=True)
class Pace:
    """How long a round waits, as a coordinator is told."""

    quorum: float
    """Share of the invited that is enough to close a round that has waited."""
    deadline: float
    """Seconds after which it closes."""
    patience: float = RunSettings.patience
    """Once the quorum is in, so many times as long again as it took."""
    least: float = RunSettings.least_wait
    """Seconds, at least."""


def answered(arrivals: Mapping[str, float], invited: int, wanted: int, pace: Pace) -> list[str] | None:
    """Who has answered when the round closes, in the order of their answers; None: no quorum at the deadline.

    Parameters
    ----------
    arrivals
        Seconds after the invitation at which devices answer; those that never do are left out. Of equal times the
        first counts first.
    invited
        How many were.
    wanted
        Answers with which the round closes at once.
    pace
        How long it waits otherwise.
    """
    quorum = max(1, math.ceil(pace.quorum * invited - 1e-9))
    enough = max(quorum, wanted)
    ordered = [name for name in sorted(arrivals, key=lambda name: arrivals[name]) if arrivals[name] <= pace.deadline]
    if len(ordered) < quorum:
        return None
    reached = arrivals[ordered[quorum - 1]]
    until = min(pace.deadline, reached + max(pace.least, pace.patience * reached))
    return [name for name in ordered[:enough] if arrivals[name] <= until]


def lasted(
    arrivals: Mapping[str, float],
    names: list[str] | None,
    failed: Mapping[str, float],
    invited: int,
    wanted: int,
    pace: Pace,
) -> float:
    """Seconds after the invitation at which a round closes.

    Parameters
    ----------
    arrivals, invited, wanted, pace
        As of `answered`.
    names
        What that said.
    failed
        Seconds at which devices say that they failed, or send what is refused: when all others have answered too,
        nobody is waited for.
    """
    quorum = max(1, math.ceil(pace.quorum * invited - 1e-9))
    if names is not None and len(names) >= max(quorum, wanted):
        return arrivals[names[-1]]
    until = pace.deadline
    if names is not None:
        reached = arrivals[names[quorum - 1]]
        until = min(until, reached + max(pace.least, pace.patience * reached))
    heard = [arrivals[name] for name in (arrivals if names is None else names)] + list(failed.values())
    return min(until, max(heard)) if len(heard) >= invited else until
