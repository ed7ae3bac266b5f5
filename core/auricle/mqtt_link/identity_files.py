"""Where a user of the broker keeps certificate and key."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from auricle.mqtt_link.link import BrokerAddress

FOLDER = "identity"
"""Folder of certificate and key inside a state folder."""


@dataclass(frozen=True)
class IdentityFiles:
    """Certificate and key of one user of the broker, in a folder of its own."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The root's certificate."""
        return self.folder / "authority.pem"

    @property
    def certificate(self) -> Path:
        """This user's chain; it is written last, so that the others are there when it is."""
        return self.folder / "certificate.pem"

    @property
    def key(self) -> Path:
        """This user's private key, readable by its owner only."""
        return self.folder / "key.pem"

    @property
    def login(self) -> Path:
        """This user's name and password, for brokers that ask for them besides; readable by its owner only."""
        return self.folder / "password"

    def lend(self, address: BrokerAddress) -> BrokerAddress:
        """The address with these files, where it speaks TLS and they are there."""
        if not address.tls or not self.certificate.is_file():
            return address
        return dataclasses.replace(
            address, ca=self.authority, certificate=self.certificate, key=self.key, login=self.login
        )
