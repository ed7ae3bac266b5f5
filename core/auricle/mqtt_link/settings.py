"""What a link has to know before it connects: the broker's address, the will, the bounds, and what a message is."""

from __future__ import annotations

import dataclasses
import re
import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from auricle.errors import SettingsError, because, nearest
from auricle.wire.broker_passwords import read_login


def split_url(url: str) -> SplitResult:
    """A URL in its parts.

    Raises
    ------
    SettingsError
        It cannot be one: an IPv6 address without brackets, or brackets that do not close.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise SettingsError(
            f'"{_without_password(url)}" is not an address: write an IPv6 address as [::1]:PORT.'
        ) from error
    if parts.netloc.rpartition("@")[2].count(":") > 1 and not parts.netloc.rpartition("@")[2].startswith("["):
        raise SettingsError(
            f'"{_without_password(url)}" has more than one port: write host:PORT, and an IPv6 address as [::1]:PORT.'
        )
    return parts


def require_port(parts: SplitResult, what: str) -> int | None:
    """Its port; None where it names none, SettingsError where it is not from 1 to 65535."""
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        named = parts.netloc.rpartition("@")[2].rpartition(":")[2]
        raise SettingsError(f'{what} has the port "{named}": a port is a number from 1 to 65535.')
    return port


def _without_password(url: str) -> str:
    """Without a password."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:...@", url)


Protocol = Literal["5", "3.1.1"]
_PORTS = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True)
class BrokerAddress:
    """Where a broker listens and who connects there; its text form is `mqtt://user:password@host:port`."""

    host: str
    port: int = 1883
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    """TLS from the first byte (`mqtts://`)."""
    ca: Path | None = None
    """PEM file with the certificates to trust; the system's own if None."""
    certificate: Path | None = None
    """PEM file with this client's certificate chain, for a broker that asks for one."""
    key: Path | None = None
    login: Path | None = None
    """File with this client's name and password, used over TLS where it is there and the URL has no password."""
    protocol: Protocol = "5"
    """MQTT version; `?protocol=3.1.1` in the URL, for amqtt."""

    @classmethod
    def parse(
        cls, url: str, *, ca: Path | None = None, certificate: Path | None = None, key: Path | None = None
    ) -> BrokerAddress:
        """Read an address from its URL.

        Parameters
        ----------
        url
            `mqtt://` or `mqtts://`, then `user:password@` (percent-encoded, optional), host, `:port` (1883 and 8883 if
            left out) and `?protocol=3.1.1` for a broker without MQTT 5.
        ca, certificate, key
            PEM files, used with `mqtts://`.

        Raises
        ------
        SettingsError
            The scheme, the host, the port or the protocol is not one of these.
        """
        parts = split_url(url if "://" in url else f"mqtt://{url}")
        if parts.scheme not in _PORTS:
            raise SettingsError(f'broker URL with scheme "{parts.scheme}": {nearest(parts.scheme, _PORTS)}')
        port = require_port(parts, "The broker's address") or _PORTS[parts.scheme]
        if not parts.hostname:
            raise SettingsError("The broker's address has no host: write mqtt://user:password@host:port.")
        return cls(
            host=parts.hostname,
            port=port,
            username=None if parts.username is None else unquote(parts.username),
            password=None if parts.password is None else unquote(parts.password),
            tls=parts.scheme == "mqtts",
            ca=ca,
            certificate=certificate,
            key=key,
            protocol=_protocol(parse_qs(parts.query).get("protocol", ["5"])[-1]),
        )

    def as_user(self, username: str, password: str) -> BrokerAddress:
        """Return the same broker as seen by another user."""
        return dataclasses.replace(self, username=username, password=password)

    def credentials(self) -> tuple[str | None, str | None]:
        """User name and password to connect with; the file is read each time.

        Raises
        ------
        SettingsError
            The file is damaged or cannot be read.
        """
        found = read_login(self.login) if self.tls and self.password is None and self.login is not None else None
        return found if found is not None and self.username in (None, found[0]) else (self.username, self.password)

    @property
    def url(self) -> str:
        """The address as a URL, password included: `parse` reads it back, a log must not print it."""
        user = "" if self.username is None else quote(self.username, safe="")
        secret = "" if self.password is None else f":{quote(self.password, safe='')}"
        query = "" if self.protocol == "5" else f"?protocol={self.protocol}"
        return f"{self._scheme}://{f'{user}{secret}@' if user else ''}{self._place}{query}"

    @property
    def _scheme(self) -> str:
        return "mqtts" if self.tls else "mqtt"

    @property
    def _place(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        """Return the address without the password, for messages and logs."""
        return f"{self._scheme}://{f'{self.username}@' if self.username else ''}{self._place}"

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings, shared by all links with the same files and read again when a file changes.

        Raises
        ------
        SettingsError
            A certificate or key file is missing or unreadable.
        """
        if not self.tls:
            return None
        files = (self.ca, self.certificate, self.key)
        try:
            stamps = tuple(0 if file is None else file.stat().st_mtime_ns for file in files)
            return _tls_context(*files, stamps)
        except (OSError, ssl.SSLError) as error:
            named = ", ".join(str(file) for file in files if file is not None)
            raise SettingsError(f"cannot use the certificate files {named}: {because(error)}.") from error


def _protocol(text: str) -> Protocol:
    for known in get_args(Protocol):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise SettingsError(f'MQTT protocol "{text}": {nearest(text, get_args(Protocol))}')


@lru_cache(maxsize=16)
def _tls_context(
    ca: Path | None, certificate: Path | None, key: Path | None, stamps: tuple[int, ...]
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


@dataclass(frozen=True)
class Will:
    """What the broker publishes when the connection ends without a DISCONNECT."""

    topic: str
    payload: bytes
    retain: bool = True
    qos: int = 1
    delay: int = 0
    """Seconds that the broker waits first, so that a short break says nothing (MQTT 5)."""


@dataclass(frozen=True)
class LinkSettings:
    """Everything that one link is told."""

    address: BrokerAddress
    client_id: str
    """Fixed name of the session; our brokers replace it by, or compare it with, the user name."""
    will: Will | None = None
    keepalive: int = 60
    """Seconds; a silent partition is noticed within 1.5 times this."""
    session_expiry: int = 86400
    """Seconds that the broker keeps the session of an absent client (MQTT 5)."""
    connect_timeout: float = 10.0
    """Seconds each for TCP, TLS and the broker's answer."""
    backoff_first: float = 0.5
    """Seconds: the first reconnect waits between 0 and this, each further one up to twice as long."""
    backoff_cap: float = 60.0
    """Seconds: no reconnect waits longer."""
    max_unacknowledged: int = 10
    """Publishes on their way to the broker at one time."""
    max_outbound: int = 256
    """Publishes in the table; a caller beyond that waits."""
    high_water: int = 64
    """Messages waiting for a handler at which the socket is no longer read."""
    max_packet_size: int = 1048576
    """Bytes; the limit that holds unless the broker announces a lower one, and the largest packet taken in."""

    def __post_init__(self) -> None:
        """Refuse numbers with which the link would stand still."""
        if not self.client_id:
            raise SettingsError("a link needs a client id: the session is found again by it")
        for name in ("keepalive", "max_unacknowledged", "max_outbound", "high_water", "connect_timeout"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"link setting {name} is {getattr(self, name)}: it has to be above 0")


@dataclass(frozen=True)
class Delivery:
    """One message as it came from the broker."""

    topic: str
    payload: bytes = field(repr=False)
    qos: int
    retain: bool
    duplicate: bool
    """The broker says that it may have sent it before."""
    mid: int
    generation: int
    """Number of the connection that brought it; only that connection can acknowledge it."""


@dataclass
class Counters:
    """What a link has done since it was started."""

    bytes_sent: int = 0
    """Sizes of the PUBLISH packets handed to the socket, resends included."""
    bytes_received: int = 0
    """Topics and payloads of the messages received."""
    messages_sent: int = 0
    messages_received: int = 0
    connections: int = 0
    """Times that the link was connected."""
    handler_errors: int = 0
    """Exceptions that came out of a handler or of the connect hook."""
    unhandled: int = 0
    """Messages that no filter of ours matched."""
    overflowed: int = 0
    """Messages left for redelivery because the queue was at its hard limit."""
