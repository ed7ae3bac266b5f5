"""How the API is served: where it listens, with which certificate, and how much it takes."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from auricle.errors import SettingsError, because
from auricle.mqtt_link.private_link import is_loopback


@dataclass(frozen=True)
class Rates:
    """Requests a second, and how many may come at once."""

    address: tuple[float, float] = (50.0, 200.0)
    token: tuple[float, float] = (20.0, 100.0)
    failures: tuple[float, float] = (0.5, 10.0)
    """Of one address with a token that is missing or wrong."""
    names: int = 10_000
    """Addresses and tokens that are remembered."""


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections are held open, and for how long without a request."""

    most: int = 400
    """In all; one with TLS costs about 270 kB."""
    most_each: int = 100
    """Of one address; loopback, where a proxy may stand, is bound by `most` only."""
    head_seconds: float = 15.0
    """Time for the TLS handshake, and for each request's head to arrive."""
    body_seconds: float = 5.0
    """Time for the rest of a request to arrive."""
    most_bodies: int = 64
    """Requests that wait for their bodies at once; each may hold `ApiSettings.largest_request` bytes."""
    most_bodies_each: int = 16
    """Of one address; loopback is bound by `most_bodies` only."""

    def __post_init__(self) -> None:
        """Refuse what would serve nobody."""
        limits = (
            self.most,
            self.most_each,
            self.head_seconds,
            self.body_seconds,
            self.most_bodies,
            self.most_bodies_each,
        )
        if min(limits) <= 0:
            raise SettingsError("The API needs room for at least one connection, and time for its request.")


@dataclass(frozen=True)
class ApiSettings:
    """How the API is served."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0: any free one."""
    certificate: Path | None = None
    """PEM file with the chain; needed on anything but loopback."""
    key: Path | None = None
    """PEM file with its private key; without, it stands in the certificate's file."""
    metrics_open: bool = False
    """Serve `/metrics` without a token."""
    device_broker: str | None = None
    """The broker as devices that claim reach it; None: as the coordinator does."""
    largest_request: int = 128 << 10
    """Bytes."""
    rates: Rates = field(default_factory=Rates)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    strict_transport: bool = True
    """With TLS, have browsers speak nothing else to this host's name for a year, at any of its ports."""
    heartbeat: float = 15.0
    """Seconds between comments in a silent stream of events."""

    def __post_init__(self) -> None:
        """Refuse to send tokens in the clear."""
        if self.certificate is None and not is_loopback(self.host):
            raise SettingsError(
                f"The API listens on {self.host} only with TLS: give --certificate and --key, or listen on 127.0.0.1."
            )

    def tls(self) -> ssl.SSLContext | None:
        """Read the certificate; SettingsError when it cannot be used."""
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            named = self.certificate if self.key is None else f"{self.certificate} or its key {self.key}"
            raise SettingsError(f"The certificate {named} cannot be used: {because(error)}.") from error
        return context


def listen_address(text: str) -> tuple[str, int] | None:
    """Read `HOST:PORT`, `[HOST]:PORT` or `none`.

    Raises
    ------
    SettingsError
        It is neither.
    """
    if text == "none":
        return None
    host, _, port = text.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f'The API cannot listen on "{text}": write HOST:PORT, e.g. 127.0.0.1:8080, or none.')
    return host.strip("[]"), int(port)


def require_address(settings: ApiSettings) -> None:
    """Refuse an address on which nothing can listen now, or a certificate that cannot be used, with SettingsError."""
    settings.tls()
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        raise address_taken(settings, error) from error


def address_taken(settings: ApiSettings, error: OSError) -> SettingsError:
    """What to say where the API cannot listen."""
    return SettingsError(f"The API cannot listen on {settings.host}:{settings.port}: {because(error)}.")
