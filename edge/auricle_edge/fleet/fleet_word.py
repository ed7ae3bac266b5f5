"""What a device says of its fleet: one sentence that is true now, and which pack the fleet runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from auricle.errors import WireError
from auricle.packs.pack import Pack
from auricle.wire.messages import Ack, Model, Nothing

log = logging.getLogger("auricle.edge")
word_log = logging.getLogger("auricle.edge.fleet")
"""`auricle edge run` shows it; an emulated fleet does not."""


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


class OtherPack:
    """Follows which pack the fleet runs; a warning when it turns out to be another one.

    Parameters
    ----------
    fleet
        Its name.
    pack
        What the device runs.
    """

    def __init__(self, fleet: str, pack: Pack) -> None:
        self._fleet, self._pack = fleet, pack
        self.sentence: str | None = None
        """What to do; None where the fleet runs the device's pack, or its coordinator has not said it yet."""

    def take(self, model: Model) -> None:
        """Take in the fleet's newest model."""
        before, self.sentence = self.sentence, other_pack(self._fleet, FleetPack.of(model), self._pack)
        if self.sentence not in (None, before):
            log.warning("%s", self.sentence)


def say_of_fleet(as_json: bool) -> None:
    """Show what devices of this process say of their fleet, unless a program reads along."""
    if not as_json:
        word_log.setLevel(logging.INFO)


class FleetWord:
    """The newest sentence about a device and its fleet.

    Parameters
    ----------
    device, fleet
        Who it is of.
    key
        The device's public key, 32 bytes.
    coordinator
        The key that the device was given as its coordinator's.
    """

    def __init__(self, device: str, fleet: str, key: bytes, coordinator: bytes) -> None:
        self._device, self._fleet, self._key, self._coordinator = device, fleet, key.hex(), coordinator.hex()
        self.sentence = "not connected yet"

    def say(self, sentence: str) -> None:
        """Something is true now."""
        if sentence != self.sentence:
            self.sentence = sentence
            word_log.info("%s: %s", self._device, sentence)

    def standing(self, message: Nothing) -> None:
        """The coordinator says how it stands towards the device, or towards another board of its name."""
        if not message.standing or (message.key and not self._key.startswith(message.key)):
            return
        if message.standing == "approved":
            self.say("approved: waits for the next round")
        elif message.standing == "pending":
            self.say(f"waiting for approval: an operator types auricle cloud devices approve {self._device}")
        else:
            self.say(f"{message.standing}: {message.reason or 'ask an operator of the fleet'}")

    def verdict(self, ack: Ack) -> None:
        """The coordinator says what became of an update."""
        refused = ack.verdict.startswith("rejected:")
        said = f"refused: {ack.verdict.removeprefix('rejected:')}" if refused else ack.verdict
        self.say(f"round {ack.round} trained, its update {'was ' if refused else 'is '}{said}")

    def wrong_key(self, error: WireError) -> None:
        """What came from the coordinator is not signed by the one that the device was told to obey."""
        if str(error).startswith("signature:"):
            self.say(
                f"the coordinator of {self._fleet} has another key than {self._coordinator[:12]}..., which this device "
                "was given: compare it with the key that auricle cloud serve prints, and name that with --coordinator"
            )
