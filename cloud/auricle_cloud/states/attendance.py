"""For which devices rounds wait longer, and which they do without, by what earlier rounds brought of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized

from auricle_cloud.states.round import AGAINST, MISSING

REFUSED_ROUNDS = 3
"""Rounds running that brought nothing of a device, after which a quorum is made of the others."""
MISSED = 3
GRACE = tuple(MISSED << step for step in range(4))
"""Rounds without a counted update, of as many as `rounds_back` says, after which the next one waits for a device."""


def slow_devices(missed: Mapping[str, Sized]) -> dict[str, int]:
    """For whom a synchronous round waits beyond its patience, and how many it missed: its updates come too late.

    A device is waited for after `MISSED` rounds running without a counted update, then after twice as many, and so on:
    one that answers within the deadline counts in every fourth round at least, one that never does costs ever less.

    Parameters
    ----------
    missed
        The rounds running that devices were invited to, and from which their updates are missing.
    """
    return {name: len(rounds) for name, rounds in sorted(missed.items()) if len(rounds) in GRACE}


def broken_devices(nothing: Mapping[str, Sized]) -> dict[str, int]:
    """Who does not count for a quorum, and how many rounds running brought nothing of it that counts.

    Such a device is invited as before: one update that counts, and it is as any other.

    Parameters
    ----------
    nothing
        The rounds running that devices were invited to, and that speak against them (`brought_nothing`).
    """
    return {name: len(rounds) for name, rounds in sorted(nothing.items()) if len(rounds) >= REFUSED_ROUNDS}


def rounds_back(known: int, invited: int) -> int:
    """Rounds in which a device is invited twice the most of `GRACE` times, where so many of those known are invited."""
    return math.ceil(2 * GRACE[-1] * max(1.0, known / max(1, invited)))


def brought_nothing(state: str, *, given_up: bool, answered: int, invited: int) -> bool:
    """Whether a finished round speaks against a device that no update of counts in it.

    Its update was refused, it failed, or its silence ended a round to which more than half of the invited had answered.
    One that declined did as it should.

    Parameters
    ----------
    state
        Of the device's invitation.
    given_up
        Whether the round had no quorum.
    answered, invited
        Devices of that round.
    """
    return state in AGAINST or (state in MISSING and given_up and 2 * answered > invited)


def not_in_quorum(rounds: int) -> str:
    """Say that a device does not count for a quorum, since so many rounds running brought nothing of it."""
    return f"{rounds} rounds running brought no update of it that counts, and rounds go on without it"
