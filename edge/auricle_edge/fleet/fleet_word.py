"""What a device says of its fleet: one sentence that is true now, logged when it changes."""

from __future__ import annotations

import logging

from auricle.errors import WireError
from auricle.wire.messages import Nothing

log = logging.getLogger("auricle.edge.fleet")
"""`auricle edge run` shows it; an emulated fleet does not."""


def say_of_fleet(as_json: bool) -> None:
    """Show what devices of this process say of their fleet, unless a program reads along."""
    if not as_json:
        log.setLevel(logging.INFO)


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
            log.info("%s: %s", self._device, sentence)

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

    def wrong_key(self, error: WireError) -> None:
        """What came from the coordinator is not signed by the one that the device was told to obey."""
        if str(error).startswith("signature:"):
            self.say(
                f"the coordinator of {self._fleet} has another key than {self._coordinator[:12]}..., which this device "
                "was given: compare it with the key that auricle cloud serve prints, and name that with --coordinator"
            )
