"""Nothing is sent in the clear to where others can read it."""

from __future__ import annotations

import ipaddress
import os

from auricle.errors import SettingsError
from auricle.mqtt_link.link import BrokerAddress

OVERRIDE = "AURICLE_PLAINTEXT_BROKER"
OVERRIDDEN = "everybody-on-this-network-may-read-and-forge"
"""For tests in a network of their own."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
