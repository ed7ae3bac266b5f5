"""The name and the address by which Home Assistant knows a satellite, without the protocol's package."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Badge:
    """What the device says of itself to anybody who connects."""

    device: str
    """Its name in the settings."""

    @property
    def name(self) -> str:
        """As ESPHome's names are: small letters, digits and hyphens, and no other host's name."""
        return f"auricle-{re.sub('[^a-z0-9]+', '-', self.device.lower()).strip('-')}"[:63]

    @property
    def mac(self) -> str:
        """Six bytes as `02:ab:...`, by which Home Assistant knows the device again: made of its name, and no card's."""
        made = hashlib.sha256(f"auricle assist {self.device}".encode()).digest()
        return ":".join(f"{byte:02X}" for byte in (made[0] & 0xFC | 0x02, *made[1:6]))
