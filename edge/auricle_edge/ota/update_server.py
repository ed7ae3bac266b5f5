"""Where metadata and targets come from: one HTTP server, and the one authority that its certificate must be from."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from cryptography import x509

from auricle.errors import SettingsError, StorageError, because
from auricle.mqtt_link.http_connection import connection_to, split_http_url
from auricle.mqtt_link.private_link import FOLDER, IdentityFiles, is_loopback
from auricle.wire.claims import UNREADABLE, pin
from auricle_edge.ota.records import Named, UpdateLaterError, UpdateRefusedError, read_plain, read_record

PIECE_BYTES = 64 << 10
CLAIM = "claim.json"


@dataclass(frozen=True)
class Patience:
    """How slow a server may be."""

    silence: float = 30.0
    """Seconds until a connection stands, and between two pieces."""
    window: float = 60.0
    """Seconds over which the rate is looked at."""
    rate: float = 1024.0
    """Bytes a second that have to come."""


class NotThereError(UpdateLaterError):
    """The server has no such file."""


class UpdateServer:
    """Fetches files below one URL.

    Parameters
    ----------
    url
        `metadata/` and `targets/` lie below it.
    context
        Whose certificates are believed; without, the system's authorities.
    patience
        How slow it may be.

    Raises
    ------
    SettingsError
        It is not a URL, or would fetch in the clear from another machine.
    """

    def __init__(self, url: str, context: ssl.SSLContext | None = None, patience: Patience | None = None) -> None:
        self._parts = _split(url)
        self.url, self.patience = url.rstrip("/"), patience or Patience()
        self._tls = context or (ssl.create_default_context() if self._parts.scheme == "https" else None)

    def pieces(self, url: str, start: int = 0) -> Iterator[bytes]:
        """The file of a URL of ours, from byte `start` on; first an empty piece if it comes from the beginning instead.

        Raises
        ------
        NotThereError
            The server has none.
        UpdateLaterError
            It does not answer, too slowly, or with less than it announced.
        """
        host = self._parts.hostname
        try:
            with closing(self._connect()) as connection:
                connection.request("GET", urlsplit(url).path, headers={"Range": f"bytes={start}-"} if start else {})
                answer = connection.getresponse()
                if answer.status in (403, 404):
                    raise NotThereError(f"{host} has no {url[len(self.url) :]}.")
                resumed = answer.status == 206 and _starts_at(answer.headers.get("Content-Range", ""), start)
                if answer.status != 200 and not resumed:
                    raise UpdateLaterError(f"{host} answers {answer.status} when asked for {url[len(self.url) :]}.")
                if start and not resumed:
                    yield b""
                yield from self._read(answer)
        except ssl.SSLCertVerificationError as error:
            raise UpdateLaterError(
                f"The certificate of {host} does not hold ({error.verify_message}): look at the device's clock."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise UpdateLaterError(f"{host} does not answer: {error or type(error).__name__}.") from error

    def _connect(self) -> http.client.HTTPConnection:
        host = self._parts.hostname or ""
        return connection_to(host, self._parts.port, silence=self.patience.silence, tls=self._tls)

    def _read(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        """The body, unless it drips."""
        began, came = time.monotonic(), 0
        while piece := answer.read1(PIECE_BYTES):
            yield piece
            came += len(piece)
            now = time.monotonic()
            if now - began >= self.patience.window:
                if came < self.patience.rate * (now - began):
                    raise UpdateLaterError(f"{self._parts.hostname} sends {came / (now - began):.0f} bytes a second.")
                began, came = now, 0
        if answer.length:
            raise UpdateLaterError(f"{self._parts.hostname} broke off {answer.length} bytes before the end.")


def _split(url: str) -> SplitResult:
    parts = split_http_url(url)
    if parts is None or parts.query or parts.username:
        raise SettingsError(f'The URL of the updates "{url}" cannot be read: write https://host:port/v1/updates.')
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise SettingsError(f"{url} would be read in the clear by anybody on the way: write https://.")
    return parts


def _starts_at(content_range: str, start: int) -> bool:
    return start > 0 and content_range.startswith(f"bytes {start}-")


def server_of(url: str | None, state: Path) -> UpdateServer:
    """The server of a device: the one of the settings, or the one that gave out its certificate.

    The latter has to show a certificate under the device's own authority, and no other. A URL of the settings may have
    any certificate that the system or that authority vouches for: what is fetched is signed by other keys anyway.

    Raises
    ------
    UpdateRefusedError
        Nothing names a server.
    SettingsError
        It is not a URL.
    StorageError
        The record of the claim or the authority cannot be read.
    """
    files = IdentityFiles(state / FOLDER)
    claim = read_record(files.folder / CLAIM, Named)
    if url is None and claim is None:
        raise UpdateRefusedError("This device has no server for updates: claim a certificate, or set url in [updates].")
    authority = None if claim is None else _authority(files.authority, claim.pin)
    if url is None:
        assert claim is not None
        url, context = f"{claim.server.rstrip('/')}/v1/updates", ssl.create_default_context(cadata=authority)
    else:
        context = ssl.create_default_context()
        if authority is not None:
            context.load_verify_locations(cadata=authority)
    return UpdateServer(url, context if url.startswith("https:") else None)


def _authority(path: Path, expected: str) -> str:
    """The root's certificate, if it has the pin of the claim."""
    data = read_plain(path)
    if data is None:
        raise StorageError(f"There is no {path}, the authority that this device claimed its certificate from.")
    try:
        if pin(x509.load_pem_x509_certificate(data)) != expected:
            raise StorageError(f"{path} is not the authority that this device claimed its certificate from.")
        return data.decode("ascii")
    except UNREADABLE as error:
        raise StorageError(f"{path} cannot be read ({because(error)}).") from error
