"""One device of an image run, and what derives from the seed for it."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass

from auricle_export.flash.fleet import Fleet


@dataclass(frozen=True)
class CardDevice:
    """A device, as its card makes it.

    Parameters
    ----------
    name
        The device's id, which is also its host name.
    token
        The claim token that it exchanges for a certificate.
    fleet
        What all devices have in common.
    boot
        Where its system mounts the boot partition.
    bundle
        Whether a bundle lies on the card.
    seed
        What everything that must differ, but is not secret, is derived from.
    """

    name: str
    token: str
    fleet: Fleet
    boot: str
    bundle: bool
    seed: int

    @property
    def first_boot(self) -> tuple[str, ...]:
        """The command that installs the bundle at this boot or the next; the words of it."""
        return ("sh", f"{self.boot}/auricle/first-boot.sh", "arm", "now")

    def instance(self, *content: str) -> str:
        """A name for this card's content, by which cloud-init knows a first boot: other content, another name."""
        told = json.dumps([self.seed, self.name, *content]).encode()
        return f"auricle-{self.name}-{hashlib.sha256(told).hexdigest()[:12]}"

    def unique(self, what: str) -> str:
        """A UUID for something of this device."""
        return str(
            uuid.UUID(bytes=hashlib.sha256(json.dumps([self.seed, self.name, what]).encode()).digest()[:16], version=4)
        )
