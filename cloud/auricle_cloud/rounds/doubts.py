"""What devices of a round say that find its model worse than one that they had before, and when that is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sized

from auricle.wire.messages import WORSE_RECEIVED
from auricle_cloud.storage.rows import InvitationRow


class Doubts:
    """The doubts of one round's devices: their judges' reasons, by name."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def hear(self, device: str, reason: str) -> bool:
        """Take what a device that trains says; whether it is a doubt."""
        if not reason.startswith(WORSE_RECEIVED):
            return False
        self.said[device] = reason
        return True

    def restore(self, invited: Mapping[str, InvitationRow]) -> None:
        """Take up those that were noted on a round's invitations, by name."""
        for name, row in invited.items():
            self.hear(name, row.reason or "")

    def prevail(self, cohort: Sized) -> bool:
        """Whether more than half of the cohort doubts."""
        return 2 * len(self.said) > len(cohort)

    def sentence(self, cohort: Sized, version: int, back: int) -> str:
        """Why the round is given up, with what one of the devices said."""
        first = min(self.said)
        return (
            f"{len(self.said)} of {len(cohort)} devices find version {version} of the model worse than one that "
            f"they had before: the next round begins with version {back}; {first} says "
            f"{_without_prefix(self.said[first])}"
        )

    def reported(self) -> dict[str, str]:
        """For a round's report: what each device found worse."""
        return {name: _without_prefix(reason) for name, reason in sorted(self.said.items())}


def _without_prefix(reason: str) -> str:
    return reason.removeprefix(WORSE_RECEIVED)
