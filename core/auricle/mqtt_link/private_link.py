"""Nothing is sent in the clear to where others can read it: loopback or TLS, and where certificate and key are kept."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import SettingsError
from auricle.mqtt_link.settings import BrokerAddress

OVERRIDE = "AURICLE_PLAINTEXT_BROKER"
OVERRIDDEN = "everybody-on-this-network-may-read-and-forge"
"""For tests in a network of their own."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach this host."""
    if host in ("localhost", "127.0.0.1", "::1"):
        return True
    import ipaddress  # for what is not the usual: a quarter of a megabyte

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_private(address: BrokerAddress) -> BrokerAddress:
    """The address, if what is said there cannot be read on the way.

    Raises
    ------
    SettingsError
        It is on another machine and without TLS.
    """
    if not address.tls and not is_loopback(address.host) and os.environ.get(OVERRIDE) != OVERRIDDEN:
        raise SettingsError(
            f"The broker at {address} is not on this machine and without TLS: write mqtts://, and see docs/identity.md."
        )
    return address


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


PASSWORD = "AURICLE_PASSWORD"
"""Environment variable with the broker's password, so that it stands on no command line."""


def broker_of(url: str, user: str, state: Path | None = None) -> BrokerAddress:
    """Read a broker's URL; a password that it leaves out comes from the environment, for `user` if it names none.

    Parameters
    ----------
    url
        See `BrokerAddress.parse`.
    user
        Who connects.
    state
        Its state folder: certificate and key are used where they are there.

    Raises
    ------
    SettingsError
        It is not a URL, or without TLS on another machine.
    """
    address = require_private(BrokerAddress.parse(url))
    if state is not None:
        address = IdentityFiles(state / FOLDER).lend(address)
    if address.password is None and PASSWORD in os.environ:
        return address.as_user(address.username or user, os.environ[PASSWORD])
    return address
