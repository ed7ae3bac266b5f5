"""The control server: HTTP/1.0 for a handful of places, behind a door that bounds who is served (`door`).

The socket in the state folder is for those who may write there (0600). The one on loopback is for programs of other
users and asks for the token in `control.token`; a page in a browser cannot use it, since it cannot set the header
without our consent, which we never give.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import secrets
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.files import describe, read_kept, write_durably
from auricle.settings import reason
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.control.client import SOCKET
from auricle_edge.control.door import LARGEST_HEAD, Door, Joined
from auricle_edge.listening.sound import Feedback


class Actions(Protocol):
    """Called from the threads of the control server. AuricleError is the answer where something cannot be done."""

    def status(self) -> msgspec.Struct:
        """How the service is."""

    def answer(self, feedback: Feedback) -> msgspec.Struct:
        """Take feedback; says what became of it."""

    def mute(self, muted: bool) -> msgspec.Struct:
        """Close or open the microphone."""

    def live(self) -> Iterator[msgspec.Struct]:
        """Level, posteriors and detections as they come, several a second."""

    def enrol(self, word: str, takes: int, keep: bool) -> Iterator[msgspec.Struct]:
        """Record takes of a word, telling each step; with `keep` also those that do not sound like it."""


log = logging.getLogger("auricle.edge")

TOKEN, FEEDBACK_TOKEN = "control.token", "feedback.token"
LARGEST_BODY = 4096
BACKLOG = 16
PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 409: "Conflict"}
SILENT_SECONDS = 30.0
"""Seconds after which a client that says nothing is hung up on."""


class ControlSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[control]`."""

    port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    """Also listen on this port of 127.0.0.1 (0: any free one), with the token in `control.token`."""


class _Problem(msgspec.Struct, frozen=True):
    error: str


class _Mute(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    muted: bool


class _Enrol(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    word: Annotated[str, Meta(min_length=1, max_length=64)]
    takes: Annotated[int, Meta(ge=1, le=100)] = 5
    keep: bool = False


class ControlServer:
    """Serves a device's actions.

    Parameters
    ----------
    folder
        The device's state folder.
    actions
        What can be asked.
    settings
        Whether to listen on loopback too.

    Raises
    ------
    SettingsError
        Another service runs in this folder, or the port is taken.
    StorageError
        The folder cannot be written.
    """

    def __init__(self, folder: Path, actions: Actions, settings: ControlSettings) -> None:
        self._path = folder / SOCKET
        listening: list[tuple[socket.socket, str | None]] = [(_unix_socket(self._path), None)]
        self.port: int | None = None
        if settings.port is not None:
            try:
                taken = socket.create_server(("127.0.0.1", settings.port), backlog=BACKLOG)
                listening.append((taken, device_token(folder)))
            except OSError as error:
                listening[0][0].close()
                self._path.unlink(missing_ok=True)
                raise SettingsError(f"control.port {settings.port} cannot be had: {error.strerror}.") from error
            self.port = taken.getsockname()[1]
        self._door = Door(listening, lambda connection, head: _Handler.answer(connection, head, actions))

    def close(self) -> None:
        """Stop listening; requests under way end with the process."""
        self._door.close()
        self._path.unlink(missing_ok=True)


def _unix_socket(path: Path) -> socket.socket:
    """Listen on a socket file that only its owner may use; a file that a killed service left is replaced."""
    if path.exists():
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            probe.connect(str(path))
            raise SettingsError(f"Another service runs in {path.parent}: one folder is for one device.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        listening.listen(BACKLOG)
        return listening
    except OSError as error:
        if "too long" in str(error):
            raise SettingsError(f"The path {path} is too long for a socket: choose a state folder nearer /.") from error
        raise StorageError(describe(error, path)) from error


def device_token(folder: Path, name: str = TOKEN) -> str:
    """What shows that somebody may use this device; made once, in its state folder, for its own user to read."""
    path = folder / name
    with contextlib.suppress(OSError):
        kept = read_kept(path).decode("ascii").strip()
        if len(kept) >= 32:
            return kept
    made = secrets.token_urlsafe(32)
    write_durably(path, made.encode(), mode=0o600)
    return made


def _encode(answer: msgspec.Struct) -> bytes:
    return msgspec.json.encode(answer, enc_hook=float)  # a number of NumPy's that came from a measurement


class _Handler:
    """One request a connection, over HTTP/1.0: what the standard library's handler would bring is a megabyte."""

    def __init__(self, connection: socket.socket, head: bytes, actions: Actions) -> None:
        self.actions, self._connection = actions, connection
        self._came = io.BufferedReader(Joined(head, connection))
        self._length = "0"

    @classmethod
    def answer(cls, connection: socket.socket, head: bytes, actions: Actions) -> None:
        """Answer the request that begins with what was read."""
        connection.settimeout(SILENT_SECONDS)
        handler = cls(connection, head, actions)
        try:
            handler._answer()
        except OSError:
            log.debug("control: the client is gone")

    def _answer(self) -> None:
        try:
            method, path = self._read_head()
            asked = f"{method} {path}"
            log.debug("control: %s", asked[:100])
            places = {
                "GET /v1/status": self._status,
                "GET /v1/live": self._live,
                "POST /v1/feedback": self._feedback,
                "POST /v1/mute": self._mute,
                "POST /v1/record": self._enrol,
                "POST /v1/enrol": self._enrol,
            }
            if asked not in places:
                self._say(404, _Problem(f"There is no {asked[:100]}."))
            else:
                places[asked]()
        except UNDECODABLE as error:
            self._say(400, _Problem(f"The request is not valid: {reason(str(error), {})}."))
        except AuricleError as error:
            self._say(409, _Problem(str(error)))

    def _read_head(self) -> tuple[str, str]:
        """Method and path; of the headers, the body's length is kept.

        Raises
        ------
        ValidationError
            It is not a request.
        """
        left, lines = LARGEST_HEAD, list[str]()
        while line := self._came.readline(left).rstrip(b"\r\n"):
            left -= len(line) + 1
            if left <= 0:
                raise msgspec.ValidationError("its headers are too long")
            lines.append(line.decode("latin-1"))
        words = lines[0].split() if lines else []
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            raise msgspec.ValidationError("it does not begin with METHOD PATH HTTP/1.1")
        for name, _, value in (header.partition(":") for header in lines[1:]):
            if name.strip().lower() == "content-length":
                self._length = value.strip()
        return words[0], words[1]

    def _body(self) -> bytes:
        length = self._length
        if not length.isdecimal() or len(length) > 9 or int(length) > LARGEST_BODY:
            raise AuricleError(f"A request's body holds at most {LARGEST_BODY} bytes.")
        return self._came.read(int(length))

    def _status(self) -> None:
        self._say(200, self.actions.status())

    def _feedback(self) -> None:
        self._say(200, self.actions.answer(msgspec.json.decode(self._body(), type=Feedback)))

    def _mute(self) -> None:
        self._say(200, self.actions.mute(msgspec.json.decode(self._body(), type=_Mute).muted))

    def _live(self) -> None:
        self._stream(self.actions.live())

    def _enrol(self) -> None:
        asked = msgspec.json.decode(self._body(), type=_Enrol)
        self._stream(self.actions.enrol(asked.word, asked.takes, asked.keep))

    def _say(self, status: int, answer: msgspec.Struct) -> None:
        body = _encode(answer)
        self._begin(status, "application/json", f"Content-Length: {len(body)}\r\n")
        self._connection.sendall(body)

    def _stream(self, answers: Iterable[msgspec.Struct]) -> None:
        """Lines of JSON until there are no more or the client is gone; an error that comes later is a line too."""
        self._begin(200, "application/x-ndjson")
        try:
            for answer in answers:
                self._connection.sendall(_encode(answer) + b"\n")
        except AuricleError as error:
            self._connection.sendall(msgspec.json.encode(_Problem(str(error))) + b"\n")

    def _begin(self, status: int, kind: str, headers: str = "") -> None:
        head = f"HTTP/1.0 {status} {PHRASES[status]}\r\nServer: auricle\r\nContent-Type: {kind}\r\n{headers}\r\n"
        self._connection.sendall(head.encode())
