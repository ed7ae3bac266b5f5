"""What an agent needs of updates: what to tell the coordinator, and who takes its word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from auricle.wire.messages import Target

State = Literal["fetching", "trial", "confirmed", "failed", "refused"]
"""How far a device has come with an update."""


@dataclass(frozen=True)
class Standing:
    """What a `Release` says, without who says it."""

    board: str = ""
    os: str = ""
    bundle: str | None = None
    """Identity of the bundle that runs."""
    confirmed: bool = True
    rollout: str = ""
    state: State | None = None
    reason: str = ""


class Updates(Protocol):
    """Follows updates for an agent."""

    def standing(self) -> Standing:
        """How the device stands now."""

    async def follow(self, target: Target) -> None:
        """Take in what the coordinator names."""
