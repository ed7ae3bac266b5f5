"""The coordinator's API as a device without a certificate sees it: it believes one root, and that by its pin."""

from __future__ import annotations

import http.client
import re
import ssl

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from auricle.errors import LATER_CODE, AuricleError, SettingsError, because
from auricle.mqtt_link.http_connection import connection_to, split_http_url
from auricle.mqtt_link.private_link import is_loopback
from auricle.wire.claims import UNREADABLE, AuthorityShown, Certified, Claim, Renewal, pin
from auricle.wire.joining import Join, SealedGrant
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.board.trusted_time import is_synchronised

ANSWER_SECONDS = 30.0
LARGEST_BYTES = 64 << 10
"""Bytes of an answer."""
BUSY = (408, 429, 500, 502, 503, 504)


class ClaimError(AuricleError):
    """A claim or renewal that failed for good: another attempt like it would fail too."""


class TryLaterError(ClaimError):
    """The coordinator cannot be reached or cannot answer now, or this device's clock is not set yet."""

    exit_code = LATER_CODE


NOT_YET_VALID, EXPIRED = 9, 10
"""Of OpenSSL, why a certificate does not hold."""


def may_hold_later(code: int, kept: bool | None) -> bool:
    """Whether a certificate may hold later: it is not valid yet, or has run out by a clock that nothing keeps right.

    Parameters
    ----------
    code
        OpenSSL's reason.
    kept
        Whether something keeps the clock right; None: nobody knows.
    """
    return code == NOT_YET_VALID or (code == EXPIRED and not kept)


class _Problem(msgspec.Struct):
    detail: str = ""


class ClaimServer:
    """Asks one coordinator.

    Parameters
    ----------
    url
        `https://host:port`; `http://` on this machine only.
    ca_pin
        SHA-256 of its root's certificate, 64 hexadecimal digits; None: not known yet, and only `unproven_root` and
        `join` may be called.

    Raises
    ------
    SettingsError
        The URL or the pin is not valid.
    """

    def __init__(self, url: str, ca_pin: str | None) -> None:
        parts = split_http_url(url)
        if parts is None or not parts.hostname or parts.path.strip("/") or parts.query:
            raise SettingsError(f'The coordinator\'s URL "{url}" cannot be read: write https://host:port.')
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise SettingsError(f"{url} would send the token in the clear: write https://.")
        if ca_pin is not None and not re.fullmatch(r"[0-9a-f]{64}", ca_pin):
            raise SettingsError("The pin is 64 hexadecimal digits, as auricle cloud enrol init prints it.")
        self._host, self._tls, self._pin = parts.hostname, parts.scheme == "https", ca_pin
        self._port = parts.port
        self._named = parts.netloc.rpartition("@")[2]

    def root(self) -> x509.Certificate:
        """The root's certificate, with the right pin; a server that shows another is not the coordinator.

        Raises
        ------
        ClaimError
            It is another one.
        TryLaterError
            Nobody answers.
        """
        root = self.unproven_root()
        if pin(root) != self._pin:
            raise ClaimError(f"{self._host} shows another authority than the one that this device was told to trust.")
        return root

    def unproven_root(self) -> x509.Certificate:
        """The root's certificate that whoever answers shows: nothing is believed of it; errors as in `root`."""
        answer = self._ask("GET", "/v1/authority", None, _believing_nobody())
        try:
            shown = msgspec.json.decode(answer, type=AuthorityShown)
            return x509.load_pem_x509_certificate(shown.certificate.encode())
        except (*UNDECODABLE, *UNREADABLE) as error:
            raise ClaimError(f"{self._host} shows no certificate authority: is it the coordinator?") from error

    def join(self, asked: Join) -> SealedGrant:
        """Ask whoever answers for a token by the code: who does not know it can read neither; errors as in `root`."""
        answer = self._ask("POST", "/v1/join", msgspec.json.encode(asked), _believing_nobody())
        try:
            return msgspec.json.decode(answer, type=SealedGrant)
        except UNDECODABLE as error:
            raise ClaimError(f"The answer of {self._host} cannot be read: {error}.") from error

    def certify(self, path: str, asked: Claim | Renewal, root: x509.Certificate) -> Certified:
        """Ask for a certificate, at a server that the root has certified; errors as in `root`."""
        known = ssl.create_default_context(cadata=root.public_bytes(Encoding.PEM).decode())
        answer = self._ask("POST", path, msgspec.json.encode(asked), known)
        try:
            return msgspec.json.decode(answer, type=Certified)
        except UNDECODABLE as error:
            raise ClaimError(f"The answer of {self._host} cannot be read: {error}.") from error

    def _ask(self, method: str, path: str, body: bytes | None, context: ssl.SSLContext) -> bytes:
        tls = context if self._tls else None
        connection = connection_to(self._host, self._port, silence=ANSWER_SECONDS, tls=tls)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            content = answer.read(LARGEST_BYTES + 1)
        except ssl.SSLCertVerificationError as error:
            if may_hold_later(error.verify_code, is_synchronised()):
                raise TryLaterError(
                    f"{self._named}: {because(error)}. Set the device's clock, or let the network set it, and "
                    "try again."
                ) from error
            raise ClaimError(
                f"{self._named}: {because(error)}. Look at the device's clock, and at the names in the coordinator's "
                "certificate."
            ) from error
        except http.client.HTTPException as error:
            if not self._tls:
                raise ClaimError(
                    f"What listens at {self._named} does not speak HTTP without TLS: is it https://?"
                ) from error
            if isinstance(error, http.client.RemoteDisconnected | http.client.IncompleteRead):
                raise TryLaterError(f"The coordinator at {self._named} went away before it had answered.") from error
            raise ClaimError(
                f"What listens at {self._named} does not speak HTTP: is it the coordinator's API?"
            ) from error
        except (TimeoutError, OSError) as error:
            raise TryLaterError(f"The coordinator at {self._named} does not answer: {because(error)}.") from error
        finally:
            connection.close()
        if answer.status == 200 and len(content) <= LARGEST_BYTES:
            return content
        kind = TryLaterError if answer.status in BUSY else ClaimError
        raise kind(f"{self._host} refuses: {_detail(content) or answer.status}")


def _believing_nobody() -> ssl.SSLContext:
    """For what is no secret, with answers that prove themselves: by the pin, or by the code."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _detail(content: bytes) -> str:
    """The sentence of a refusal, without anything that a terminal would obey."""
    try:
        text = msgspec.json.decode(content[:LARGEST_BYTES], type=_Problem).detail[:500]
    except UNDECODABLE:
        return ""
    return "".join(character if character.isprintable() else "?" for character in text)
