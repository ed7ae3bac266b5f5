"""Which pack a device's fleet runs, and what its owner can do where it is another one than the device's."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.packs.pack import Pack
from auricle.wire.messages import Model


@dataclass(frozen=True)
class FleetPack:
    """The pack of a fleet's task, as its coordinator says."""

    identity: str
    name: str
    """Empty: the coordinator is too old to say it."""

    @classmethod
    def of(cls, model: Model) -> FleetPack:
        """What the newest model belongs to."""
        return cls(model.pack, model.pack_name)


def other_pack(fleet: str, theirs: FleetPack | None, pack: Pack) -> str | None:
    """Say that a fleet runs another pack than the device, and what to do; None where they run the same or nobody knows.

    Parameters
    ----------
    fleet
        Its name.
    theirs
        What it runs; None: the coordinator has not said it yet.
    pack
        What the device runs.
    """
    if theirs is None or theirs.identity == pack.identity:
        return None
    ours = pack.manifest.name
    runs = f"{theirs.name} ({theirs.identity[:12]})" if theirs.name else theirs.identity[:12]
    told = (
        f"The fleet {fleet} runs the pack {runs}, this device {ours} ({pack.identity[:12]}): it listens, but takes no "
        "part in rounds. "
    )
    if theirs.name == ours:
        return f"{told}Install the same version of auricle, or of the pack, on the device and the coordinator."
    wanted = f"--pack {theirs.name}" if theirs.name else "the fleet's pack (--pack)"
    return f"{told}Start the device with {wanted}, or the coordinator with --pack {ours}."
