"""The control server: the standard library's HTTP server, in threads, bounded.

The socket in the state folder is for whoever may write there (mode 0600). The one on loopback is for programs of other
users and asks for the token in `control.token`; a page in a browser cannot use it, since it cannot set the header
without our consent, which we never give.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import os
import secrets
import socket
import socketserver
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.files import describe, write_durably
from auricle_edge.control.actions import Actions
from auricle_edge.control.client import SOCKET
from auricle_edge.listening.feedback import Feedback

log = logging.getLogger("auricle.edge")

TOKEN = "control.token"
LARGEST_BODY = 4096
MOST_REQUESTS = 8
"""Requests served at once; a live view keeps one."""
SILENT = 30.0
"""Seconds after which a client that says nothing is hung up on."""


class ControlSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[control]`."""

    port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    """Also listen on this port of 127.0.0.1 (0: any free one), with the token in `control.token`."""


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
        self._slots = threading.BoundedSemaphore(MOST_REQUESTS)
        self._servers: list[socketserver.BaseServer] = [_unix_server(self._path, self._handler(actions, None))]
        self.port: int | None = None
        if settings.port is not None:
            token = _token(folder / TOKEN)
            try:
                server = _TcpServer(("127.0.0.1", settings.port), self._handler(actions, token))
            except OSError as error:
                self.close()
                raise SettingsError(f"control.port {settings.port} cannot be had: {error.strerror}.") from error
            self.port = server.server_address[1]
            self._servers.append(server)
        for listening in self._servers:
            threading.Thread(target=listening.serve_forever, name="control", daemon=True).start()

    def close(self) -> None:
        """Stop listening; requests under way end with the process."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._path.unlink(missing_ok=True)

    def _handler(self, actions: Actions, token: str | None) -> type[_Handler]:
        return type("Handler", (_Handler,), {"actions": actions, "token": token, "slots": self._slots})


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _TcpServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _unix_server(path: Path, handler: type[_Handler]) -> _UnixServer:
    """Listen on a socket file that only its owner may use; a file that a killed service left is replaced."""
    if path.exists():
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            probe.connect(str(path))
            raise SettingsError(f"Another service runs in {path.parent}: one folder is for one device.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            return _UnixServer(str(path), handler)
        finally:
            os.umask(before)
    except OSError as error:
        if "too long" in str(error):
            raise SettingsError(f"The path {path} is too long for a socket: choose a state folder nearer /.") from error
        raise StorageError(describe(error, path)) from error


def _token(path: Path) -> str:
    """The token of this device, made once."""
    with contextlib.suppress(OSError):
        kept = path.read_text("ascii").strip()
        if len(kept) >= 32:
            return kept
    made = secrets.token_urlsafe(32)
    write_durably(path, made.encode(), mode=0o600)
    return made


class _Handler(BaseHTTPRequestHandler):
    """One request a connection."""

    actions: ClassVar[Actions]
    token: ClassVar[str | None]
    slots: ClassVar[threading.BoundedSemaphore]
    timeout = SILENT
    server_version = "auricle"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a question."""
        self._guarded({"/v1/status": self._status, "/v1/live": self._live})

    def do_POST(self) -> None:
        """Do something."""
        places = {"/v1/feedback": self._feedback, "/v1/mute": self._mute, "/v1/record": self._enrol}
        self._guarded(places | {"/v1/enrol": self._enrol})

    def address_string(self) -> str:
        """Who asks, for the log; a socket file has no address."""
        return str(self.client_address[0]) if self.client_address else "local"

    def log_message(self, format: str, *args: object) -> None:
        """Requests go to the debug log."""
        log.debug("control: " + format, *args)

    def _guarded(self, places: Mapping[str, Any]) -> None:
        if not self.slots.acquire(blocking=False):
            self._say(503, {"error": "Too many requests at once."})
            return
        try:
            if not self._allowed():
                self._say(401, {"error": f"Send the token of {TOKEN} as Authorization: Bearer."})
            elif self.path not in places:
                self._say(404, {"error": f"There is no {self.command} {self.path[:100]}."})
            else:
                places[self.path]()
        except msgspec.MsgspecError as error:
            self._say(400, {"error": str(error)})
        except AuricleError as error:
            self._say(409, {"error": str(error)})
        except OSError:
            log.debug("control: the client is gone")
        finally:
            self.slots.release()

    def _allowed(self) -> bool:
        if self.token is None:
            return True
        given = self.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {self.token}".encode())

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

    def _say(self, status: int, answer: Mapping[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, answers: Iterable[Mapping[str, Any]]) -> None:
        """Lines of JSON until there are no more or the client is gone; an error that comes later is a line too."""
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.end_headers()
        try:
            for answer in answers:
                self.wfile.write(json.dumps(answer).encode() + b"\n")
        except AuricleError as error:
            self.wfile.write(json.dumps({"error": str(error)}).encode() + b"\n")
