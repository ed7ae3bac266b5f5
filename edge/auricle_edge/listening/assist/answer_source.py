"""An answer or announcement at the URL that Home Assistant gave: from where it may come, and its sound as it comes."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from auricle.errors import AuricleError, DataError, because
from auricle.mqtt_link.http_connection import connection_to
from auricle.mqtt_link.private_link import is_loopback

CONNECT_SECONDS = 10.0
"""In which the other side has to take the connection, and then to send something."""
LARGEST_CHUNK = 1 << 16
"""Bytes of what may stand before the samples of a WAV file."""
LONGEST_URL = 4096
CHANNELS, RATES = (1, 2), (8_000, 48_000)


@dataclass(frozen=True)
class AnswerOrigin:
    """Who named a URL."""

    address: str
    encrypted: bool
    """Over a connection under the device's key."""
    others: Sequence[str] = ()
    """Hosts that the settings allow besides."""


@dataclass(frozen=True)
class WavFormat:
    """How 16-bit samples follow each other."""

    rate: int
    """Hz."""
    channels: int


class AnswerSource:
    """Sound from a URL, read in a thread of its own; `close`, from any thread, ends what waits there.

    Parameters
    ----------
    url
        `http://` or `https://`; nothing is followed that it leads on to.
    origin
        Who gave it: without a key only what comes from its own host is fetched.

    Raises
    ------
    AuricleError
        It cannot be fetched from there, or is no WAV file of 16 bits.
    """

    def __init__(self, url: str, origin: AnswerOrigin) -> None:
        self._connection = _connection(url, origin)
        self._closed = False
        try:
            self._response = self._ask(url)
            self.format = self._read_format()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise AuricleError(f"{_for_log(url)} cannot be fetched ({because(error)})") from error
        except AuricleError:
            self.close()
            raise

    def read(self, count: int) -> bytes:
        """So many bytes of samples, fewer at the end; AuricleError where they do not come."""
        try:
            return self._response.read(count)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            if self._closed:
                return b""
            raise AuricleError(f"it broke off ({because(error) if isinstance(error, OSError) else error})") from error

    def close(self) -> None:
        """Read no more."""
        self._closed = True
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _ask(self, url: str) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection.request("GET", path, headers={"User-Agent": "auricle", "Accept": "audio/wav, */*;q=0.1"})
        response = self._connection.getresponse()
        if response.status != http.client.OK:
            raise AuricleError(f"{_for_log(url)} answers {response.status} {response.reason[:80]}")
        return response

    def _read_format(self) -> WavFormat:
        """Read up to the samples."""
        head = self._whole(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            raise DataError("it is not a WAV file")
        left, found = LARGEST_CHUNK, None
        while True:
            name, size = (chunk := self._whole(8))[:4], int.from_bytes(chunk[4:], "little")
            if name == b"data" and found is not None:
                return found
            left -= len(chunk) + size
            if left < 0:
                raise DataError("its samples do not begin where a WAV file has them")
            body = self._whole(size + size % 2)
            if name == b"fmt ":
                found = _format(body)

    def _whole(self, count: int) -> bytes:
        read = self._response.read(count)
        if len(read) < count:
            raise DataError("it ends before its samples")
        return read


def _format(body: bytes) -> WavFormat:
    kind, channels = int.from_bytes(body[:2], "little"), int.from_bytes(body[2:4], "little")
    rate, bits = int.from_bytes(body[4:8], "little"), int.from_bytes(body[14:16], "little")
    if kind not in (1, 0xFFFE) or bits != 16 or channels not in CHANNELS or not RATES[0] <= rate <= RATES[1]:
        raise DataError(f"it has {channels} channels of {bits} bits at {rate} Hz")
    return WavFormat(rate, channels)


def _connection(url: str, origin: AnswerOrigin) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise AuricleError("what Home Assistant names is not a URL") from None
    if len(url) > LONGEST_URL or not (url.isascii() and url.isprintable()) or " " in url:
        raise AuricleError("what Home Assistant names is not a URL")
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise AuricleError(f"{_for_log(url)} is neither http:// nor https://")
    if not (origin.encrypted or host in origin.others or _is_from(host, origin.address)):
        raise AuricleError(f"{host} is not the host that is connected, and not in answers_from: give both a key_file")
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    return connection_to(host, port, silence=CONNECT_SECONDS, tls=tls)


def _is_from(host: str, address: str) -> bool:
    """Whether a host is the one that is connected; who connects over loopback is this machine, by any of its names."""
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    if is_loopback(address):
        return all(is_loopback(each) or _is_ours(each) for each in found)
    return found == {address}


def _is_ours(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False


def _for_log(url: str) -> str:
    """A URL for a log, without what may be a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
