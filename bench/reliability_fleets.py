"""What a fleet of the comparison has beside the buttons of `flower_fleets`: its models, and what its server has taken.

`rules` are a side's two: the mean of weights, which all have, and what a side offers of itself
against updates that harm; empty where it offers nothing.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from bench.flower_fleets import Closed, Fleet
from bench.reliability_task import CLIENTS, STEP

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
NEAR = 1e-5
"""By which a model may differ from the one that is expected: float32 of a few hundred rounds."""


@dataclass(frozen=True)
class Made:
    """A model."""

    at: float
    """Seconds since 1970; 0 of the one that a run begins with."""
    quarters: tuple[float, ...]
    """Mean weight of each client's quarter."""


class Watched(Fleet):
    """A fleet whose models are looked at.

    Parameters
    ----------
    folder
        Everything is kept in it; clients are held by files in it.
    devices
        How many there are.
    """

    title: ClassVar[str]
    """As it is printed, with its version."""
    rules: ClassVar[tuple[str, str]]
    """The mean of weights, and what there is against updates that harm; empty where there is nothing."""
    again: ClassVar[str] = ""
    """What a person does whose run did not survive the death of the server."""

    @abstractmethod
    def models(self) -> list[Made]:
        """Models since `begin`, the one that it began with first."""

    def done(self) -> int:
        """Models made since `begin`."""
        return max(0, len(self.models()) - 1)

    @abstractmethod
    def taken(self) -> int:
        """Updates that the server has acknowledged since its newest model."""

    @abstractmethod
    def forget(self) -> None:
        """Have the next run begin with a model that no other run has made, where this side begins runs with one."""

    @abstractmethod
    async def said(self, since: int) -> str:
        """What a person is told of the client that attacked, since a length of the server's log."""

    def log_length(self) -> int:
        """Bytes that the server has written so far."""
        return self.path("server.log").stat().st_size

    def warned(self, since: int) -> str:
        """The last warning or error of the server's log since a length of it."""
        text = self.path("server.log").read_bytes()[since:].decode(errors="replace")
        found = [line for line in COLOUR.sub("", text).splitlines() if "WARN" in line or "ERROR" in line]
        return found[-1].strip()[-160:] if found else "nothing"

    @abstractmethod
    async def choose(self, rule: str) -> None:
        """Have the rounds from now on averaged by a rule."""

    def closed(self) -> list[Closed]:
        """Rounds that are over, from their models."""
        made = self.models()
        return [Closed(new.at, len(counted(old, new)), is_mean(old, new)) for old, new in pairwise(made)]

    def path(self, name: str) -> Path:
        """A file by which clients are told something."""
        return self.folder / name

    def hold(self, *numbers: int, after: int = 0) -> None:
        """Have each of these clients train so many times as it does, and then not end until `let_go`."""
        for number in range(CLIENTS):
            for name in ("trainings", "held", "hold"):
                self.path(f"{name}-{number}").unlink(missing_ok=True)
        for number in numbers:
            writing = self.path("hold")
            writing.write_text(str(after))
            writing.replace(self.path(f"hold-{number}"))

    def let_go(self) -> None:
        """Have all clients end their training."""
        for number in range(CLIENTS):
            self.path(f"hold-{number}").unlink(missing_ok=True)

    def held(self, *numbers: int) -> bool | None:
        """True once all these clients are held."""
        return all(self.path(f"held-{number}").exists() for number in numbers) or None


def counted(old: Made, new: Made) -> list[int]:
    """Clients whose quarter of the model moved."""
    return [i for i, (a, b) in enumerate(zip(old.quarters, new.quarters, strict=True)) if not abs(b - a) <= NEAR]


def is_mean(old: Made, new: Made) -> bool:
    """Whether a model is the mean of honest updates to the one before: each client that counted moved it as far."""
    who = counted(old, new)
    return bool(who) and all(abs(new.quarters[i] - old.quarters[i] - float(STEP) / len(who)) <= NEAR for i in who)


def is_harmed(old: Made, new: Made) -> bool:
    """Whether honest clients could not have made a model: it is outside of their smallest and largest values."""
    pairs = zip(old.quarters, new.quarters, strict=True)
    return not all(-NEAR <= b - a <= float(STEP) + NEAR for a, b in pairs)
