"""The same operations on a coordinator elsewhere, over its HTTP API."""

from __future__ import annotations

import http.client
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import quote, urlencode

import msgspec

from auricle.errors import DENIED_CODE, LATER_CODE, UNREACHABLE_CODE, AuricleError, SettingsError, because
from auricle.mqtt_link.private_link import is_loopback
from auricle.mqtt_link.settings import require_port, split_url
from auricle.wire.kinds import UNDECODABLE
from auricle_cloud.api.routes import BY_OPERATION, Route
from auricle_cloud.observing.announcements import Event
from auricle_cloud.operations.operating import ConflictError, NotFoundError
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.types import File, Problem

TOKEN = "AURICLE_TOKEN"
"""Environment variable with the token, so that it stands on no command line."""
ANSWER_SECONDS = 30.0
LARGEST_BYTES = 512 << 20
"""Bytes that an answer may have: those of the largest model, and more than any page."""


class RemoteError(AuricleError):
    """The server cannot be reached, or refuses."""

    exit_code = UNREACHABLE_CODE


class DeniedError(RemoteError):
    """The token is missing or not valid, or its role does not allow what was asked."""

    exit_code = DENIED_CODE


class BusyError(RemoteError):
    """The server takes nothing now: too many requests, or its database or disk fails."""

    exit_code = LATER_CODE


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token elsewhere."""

    def redirect_request(self, *_: object) -> None:
        """Refuse."""


class Remote:
    """Calls operations by name: every method of `Operations` that a route has.

    Parameters
    ----------
    server
        URL of the API, `https://` unless it is on this machine.
    token
        The bearer token.

    Raises
    ------
    SettingsError
        The URL is not valid, or the token would be sent in the clear.
    DeniedError
        The text cannot be a token.
    """

    def __init__(self, server: str, token: str) -> None:
        parts, token = split_url(server), token.strip()  # what reads a file gives its new line, too
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise SettingsError(f'"{server}" is not the address of a coordinator: write https://host:port.')
        require_port(parts, f"The coordinator's address {server}")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise SettingsError(f"The token would travel in the clear to {parts.hostname}: use https://.")
        if not token.isascii() or not token.isprintable():
            raise DeniedError(f"The token in {TOKEN} is not one: it begins with auricle_.")
        self._server, self._token = server.rstrip("/"), token
        self._opener = urllib.request.build_opener(_NoRedirect())

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        """An operation as a function of its keyword parameters."""
        route = BY_OPERATION.get(operation)
        if route is None:
            raise AttributeError(operation)
        return lambda *given, **values: self._call(route, {**dict(zip(route.names, given, strict=False)), **values})

    def _call(self, route: Route, values: dict[str, object]) -> object:
        values = {name: value for name, value in values.items() if value is not None}
        route.checked(values)
        path = re.sub(r"\{(\w+)\}", lambda match: quote(str(values.pop(match[1])), safe=""), route.path)
        body = None if route.in_query else msgspec.json.encode(values)
        query = f"?{urlencode({name: _text(value) for name, value in values.items()})}" if route.in_query else ""
        with self._request(route.method, path + query, body) as response:
            data = self._read(response)
            if route.is_file:
                name = response.headers.get_filename() or "model"
                return File(name=name, content_type=response.headers.get_content_type(), content=data)
        try:
            return msgspec.json.decode(data, type=route.result)
        except UNDECODABLE as error:
            raise RemoteError(f"{self._server} speaks another version of the API ({error}).") from error

    def events(self, seconds: float = ANSWER_SECONDS) -> Iterator[Event | None]:
        """What happens, live; None at every heartbeat. Ends when the server does."""
        kind, data = "", ""
        with self._request("GET", "/v1/events", None, seconds) as response:
            for raw in response:
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                if line.startswith(":"):
                    yield None
                elif line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    data = line[6:]
                elif not line and data:
                    yield Event(kind, self._decode(data))
                    kind, data = "", ""

    def _decode(self, data: str) -> dict[str, object]:
        try:
            return msgspec.json.decode(data, type=dict[str, object])
        except UNDECODABLE as error:
            raise RemoteError(f"{self._server} speaks another version of the API ({error}).") from error

    def post(self, address: str, body: bytes, content_type: str, seconds: float = ANSWER_SECONDS) -> bytes:
        """Send what is no operation, and return what is answered."""
        with self._request("POST", address, body, seconds, content_type) as response:
            return self._read(response)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            data = response.read(LARGEST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise RemoteError(f"The answer of {self._server} broke off: {because(error)}.") from error
        if len(data) > LARGEST_BYTES:
            raise RemoteError(f"The answer of {self._server} is larger than {LARGEST_BYTES >> 20} MiB.")
        return data

    def _request(
        self,
        method: str,
        address: str,
        body: bytes | None,
        seconds: float = ANSWER_SECONDS,
        content_type: str = "application/json",
    ) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "*/*"}
        if body is not None:
            headers["Content-Type"] = content_type
        request = urllib.request.Request(self._server + address, body, headers, method=method)
        try:
            response: http.client.HTTPResponse = self._opener.open(request, timeout=seconds)
        except urllib.error.HTTPError as error:
            raise _refusal(self._server, error) from error
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)
            if isinstance(why, ssl.SSLCertVerificationError):
                raise RemoteError(_certificate_sentence(self._server, why)) from error
            cause = why if isinstance(why, BaseException) else error
            raise RemoteError(
                f"The coordinator at {self._server} cannot be reached: {because(cause)}{_hint(self._server, cause)}"
            ) from error
        return response


def _hint(server: str, why: BaseException) -> str:
    """What may be wrong where a server does not answer; the end of the sentence."""
    if isinstance(why, ConnectionRefusedError):
        return "; is auricle cloud serve running there?"
    if isinstance(why, ssl.SSLError):
        return "; if it was started without a certificate, write http://."
    if isinstance(why, http.client.RemoteDisconnected | ConnectionResetError) and server.startswith("http:"):
        return "; if it was started with a certificate, write https://."
    return "."


def _certificate_sentence(server: str, why: ssl.SSLCertVerificationError) -> str:
    """A certificate that this machine does not believe, in a sentence."""
    said = because(why).partition(": ")[2]
    return (
        f"The certificate of {server} is not trusted here, {said}: set SSL_CERT_FILE to the authority's root.pem "
        "(authority/root.pem in the coordinator's folder), and use a name that the certificate has."
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refusal(server: str, error: urllib.error.HTTPError) -> AuricleError:
    try:
        detail = msgspec.json.decode(error.read(64 << 10), type=Problem).detail
    except (*UNDECODABLE, OSError, http.client.HTTPException):
        detail = f"{server} answers {error.code} {error.reason}."
    kinds: dict[int, type[AuricleError]] = {
        401: DeniedError,
        403: DeniedError,
        404: NotFoundError,
        409: ConflictError,
        422: SettingsError,
        429: BusyError,
        503: BusyError,
    }
    return kinds.get(error.code, RemoteError)(detail)


def connect(server: str, token: str | None = None) -> Operations:
    """Operations of a coordinator elsewhere; the token comes from the environment if it is not given."""
    given = token or os.environ.get(TOKEN, "")
    if not given:
        raise DeniedError(f"A token is needed: set {TOKEN}; an admin makes one with auricle cloud tokens create.")
    return cast(Operations, Remote(server, given))


class Checked:
    """Operations whose parameters are checked as the API would.

    Parameters
    ----------
    operations
        Of this machine.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        """An operation as a function of its parameters."""
        route = BY_OPERATION.get(operation)
        if route is None:
            raise AttributeError(operation)

        def call(*given: object, **values: object) -> object:
            parameters = route.checked({**dict(zip(route.names, given, strict=False)), **values})
            return getattr(self._operations, operation)(**parameters)

        return call


def checked(operations: Operations) -> Operations:
    """Check what operations are given."""
    return cast(Operations, Checked(operations))
