"""Who is invited to a round: who may be, and among them those who took part least often."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Protocol

PAUSE_SECONDS = 30.0
"""Seconds for which a device that has declined an invitation gets no other: it would say the same."""


class Selectable(Protocol):
    """A device that can be invited, as far as its choice goes."""

    @property
    def device(self) -> str:
        """Its name."""

    @property
    def selected(self) -> int:
        """Rounds it was invited to."""


class Candidate(Selectable, Protocol):
    """A device as far as its fitness goes; a row of the database is one."""

    @property
    def standing(self) -> str:
        """pending, approved, quarantined or revoked."""

    @property
    def reason(self) -> str:
        """Why it has this standing."""

    @property
    def pack(self) -> str:
        """Identity of its pack."""

    @property
    def online(self) -> bool:
        """Whether it is here."""

    @property
    def last_seen(self) -> float:
        """When its last message came, seconds since 1970."""

    @property
    def offline_since(self) -> float | None:
        """When it went; None: it is online, or nobody knows whether it is."""

    @property
    def gate(self) -> str:
        """`train` if it would train now."""

    @property
    def gate_reason(self) -> str:
        """Why it would not."""

    @property
    def capabilities(self) -> str:
        """What of a plan it can do beyond the first version, with spaces between."""


def moment(at: float) -> str:
    """A time on this machine's clock, with its zone: `2026-11-23 14:05 CET`."""
    return time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(at))


def unfit(row: Candidate, pack: str, capabilities: Iterable[str] = ()) -> str | None:
    """Say why a device cannot be invited now; None when it can.

    Parameters
    ----------
    row
        The device as the database has it.
    pack
        Identity of the task's pack; empty as long as there is no task.
    capabilities
        What a device has to be able to do for the round's plan.
    """
    if row.standing != "approved":
        if row.standing == "pending":
            return "waits for an operator's approval"
        why = f": {row.reason}" if row.reason else ""
        return f"is quarantined{why}" if row.standing == "quarantined" else f"was revoked{why}"
    if pack and row.pack != pack:
        return f"has pack {row.pack[:12]}, the task is of pack {pack[:12]}"
    for capability in capabilities:
        if capability not in row.capabilities.split():
            return f"has an agent that is too old for {capability}: update it"
    if not row.online:
        if row.offline_since is None:
            last = moment(row.last_seen)
            return f"has not been heard since a coordinator started or ended: its last message came at {last}"
        return f"is offline since {moment(row.offline_since)}"
    if row.gate != "train":
        return f"does not want to train now{': ' + row.gate_reason if row.gate_reason else ''}"
    return None


def rests(number: int, reason: str | None) -> str:
    """Say that a device has just declined a round, and is left alone for `PAUSE_SECONDS`."""
    why = f": {reason}" if reason else ""
    return f"declined round {number} less than {PAUSE_SECONDS:g} seconds ago, and is asked again after that{why}"


def draw(rows: Iterable[Selectable], share: float, generator: random.Random) -> list[str]:
    """Draw a cohort for rounds with noise: each device by itself, with the same probability (Poisson sampling).

    Only so does a draw that nobody can foresee hide who took part, which is what the smaller epsilon rests on.

    Parameters
    ----------
    share
        The probability, above 0, at most 1.
    generator
        The system's own randomness for real rounds.

    Returns
    -------
    list of str
        Device names in ascending order; may be empty.
    """
    names = sorted(row.device for row in rows)
    return [name for name in names if generator.random() < share]


def choose(rows: Iterable[Selectable], size: int, seed: str) -> list[str]:
    """Choose a cohort among devices that can be invited.

    Fair over time: those selected least often come first; the seed decides among equals. The same rows and seed
    give the same cohort in any order of the rows.

    Parameters
    ----------
    size
        How many; all of them when there are fewer.

    Returns
    -------
    list of str
        Device names in ascending order.
    """
    able = sorted((row.selected, row.device) for row in rows)
    draw = random.Random(seed)
    tickets = {name: draw.random() for _, name in sorted(able, key=lambda row: row[1])}
    ranked = sorted(able, key=lambda row: (row[0], tickets[row[1]], row[1]))
    return sorted(name for _, name in ranked[:size])
