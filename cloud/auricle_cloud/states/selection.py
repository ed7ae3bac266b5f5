"""Who is invited to a round: who may be, and among them whoever took part least often."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Protocol


class Candidate(Protocol):
    """A device as far as its choice goes; a row of the database is one."""

    @property
    def device(self) -> str:
        """Its name."""

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
    def selected(self) -> int:
        """Rounds it was invited to."""


def moment(at: float) -> str:
    """A time on this machine's clock, with its zone: `2026-11-23 14:05 CET`."""
    return time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(at))


def unfit(row: Candidate, pack: str) -> str | None:
    """Say why a device cannot be invited now; None when it can.

    Parameters
    ----------
    row
        The device as the database has it.
    pack
        Identity of the task's pack; empty as long as there is no task.
    """
    if row.standing != "approved":
        if row.standing == "pending":
            return "waits for an operator's approval"
        why = f": {row.reason}" if row.reason else ""
        return f"is quarantined{why}" if row.standing == "quarantined" else f"was revoked{why}"
    if pack and row.pack != pack:
        return f"has pack {row.pack[:12]}, the task is of pack {pack[:12]}"
    if not row.online:
        if row.offline_since is None:
            return f"was not heard since the coordinator started; its last message came at {moment(row.last_seen)}"
        return f"is offline since {moment(row.offline_since)}"
    if row.gate != "train":
        return f"does not want to train now{': ' + row.gate_reason if row.gate_reason else ''}"
    return None


def choose(rows: Iterable[Candidate], size: int, seed: str) -> list[str]:
    """Choose a cohort among devices that can be invited.

    Fair over time: whoever was selected least often comes first; the seed decides among equals. The same rows and seed
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
