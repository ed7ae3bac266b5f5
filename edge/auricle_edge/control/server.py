"""The control server: the standard library's HTTP handler behind a door that bounds who is served (`door`).

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.files import describe, write_durably
from auricle.settings import reason
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.control.client import SOCKET
from auricle_edge.control.door import Door, Joined
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
SILENT = 30.0
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
        kept = path.read_text("ascii").strip()
        if len(kept) >= 32:
            return kept
    made = secrets.token_urlsafe(32)
    write_durably(path, made.encode(), mode=0o600)
    return made


def _encoded(answer: msgspec.Struct) -> bytes:
    return msgspec.json.encode(answer, enc_hook=float)  # a number of NumPy's that came from a measurement


class _Handler(BaseHTTPRequestHandler):
    """One request a connection."""

    timeout = SILENT
    server_version = "auricle"
    sys_version = ""

    @classmethod
    def answer(cls, connection: socket.socket, head: bytes, actions: Actions) -> None:
        """Answer the request that begins with what was read."""
        made = cls.__new__(cls)
        made.head, made.actions = head, actions
        made.__init__(connection, ("local", 0), None)  # type: ignore[misc]  # it answers while it is made

    head: bytes
    actions: Actions

    def setup(self) -> None:
        """Read what the door has read, and then the connection."""
        super().setup()
        self.rfile = io.BufferedReader(Joined(self.head, self.connection))

    def do_GET(self) -> None:
        """Answer a question."""
        self._guarded({"/v1/status": self._status, "/v1/live": self._live})

    def do_POST(self) -> None:
        """Do something."""
        places = {"/v1/feedback": self._feedback, "/v1/mute": self._mute, "/v1/record": self._enrol}
        self._guarded(places | {"/v1/enrol": self._enrol})

    def log_message(self, format: str, *args: object) -> None:
        """Requests go to the debug log."""
        log.debug("control: " + format, *args)

    def _guarded(self, places: Mapping[str, Callable[[], None]]) -> None:
        try:
            if self.path not in places:
                self._say(404, _Problem(f"There is no {self.command} {self.path[:100]}."))
            else:
                places[self.path]()
        except UNDECODABLE as error:
            self._say(400, _Problem(f"The request is not valid: {reason(str(error), {})}."))
        except AuricleError as error:
            self._say(409, _Problem(str(error)))
        except OSError:
            log.debug("control: the client is gone")

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or len(length) > 9 or int(length) > LARGEST_BODY:
            raise AuricleError(f"A request's body holds at most {LARGEST_BODY} bytes.")
        return self.rfile.read(int(length))

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
        body = _encoded(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, answers: Iterable[msgspec.Struct]) -> None:
        """Lines of JSON until there are no more or the client is gone; an error that comes later is a line too."""
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.end_headers()
        try:
            for answer in answers:
                self.wfile.write(_encoded(answer) + b"\n")
        except AuricleError as error:
            self.wfile.write(msgspec.json.encode(_Problem(str(error))) + b"\n")
