"""Who waits to be served: heads of requests are read by one thread for all, which gives a thread only to who may ask.

A connection that says nothing, half a head or a wrong token costs its descriptor for some seconds, and no thread: the
service's tasks are few, and its microphone and its rounds need them.
"""

from __future__ import annotations

import hmac
import io
import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger("auricle.edge")

LARGEST_HEAD = 16 << 10
"""Bytes of a request's line and headers."""
HEAD_SECONDS = 5.0
"""Within which they have to come."""
MOST_WAITING = 32
"""Connections whose head is not there; a further one takes the place of the one that waits for longest."""
MOST_REQUESTS = 8
"""Requests served at once; a live view keeps one."""
ENDS = (b"\r\n\r\n", b"\n\n")


@dataclass(eq=False)
class Caller:
    """A connection whose request is not there yet."""

    connection: socket.socket
    token: str | None
    """What it has to send; None: nothing."""
    since: float
    head: bytearray = field(default_factory=bytearray)


Serve = Callable[[socket.socket, bytes], None]
"""Answers a request on a connection; what was read of it is given. The connection is closed afterwards."""


class Door:
    """Listens on sockets for as long as it is open.

    Parameters
    ----------
    listening
        Listening sockets, each with the token that its callers need, or None.
    serve
        Answers a request, in a thread of its own.
    """

    def __init__(self, listening: list[tuple[socket.socket, str | None]], serve: Serve) -> None:
        self._serve, self._slots = serve, threading.BoundedSemaphore(MOST_REQUESTS)
        self._selector = selectors.DefaultSelector()
        self._callers: dict[int, Caller] = {}
        self._listening = [each for each, _ in listening]
        for each, token in listening:
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ, token)
        self._open = True
        self._woken, self._waker = os.pipe()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests under way end with the process."""
        if not self._open:
            return
        self._open = False
        os.write(self._waker, b"x")
        self._thread.join()
        for caller in list(self._callers.values()):
            self._let_go(caller).close()
        for each in self._listening:
            each.close()
        self._selector.close()
        os.close(self._woken)
        os.close(self._waker)

    def _run(self) -> None:
        while self._open:
            for key, _ in self._selector.select(1.0 if self._callers else None):
                if key.fd in self._callers:
                    self._read(self._callers[key.fd])
                elif key.fd != self._woken:
                    assert isinstance(key.fileobj, socket.socket)
                    self._accept(key.fileobj, key.data)
            late = time.monotonic() - HEAD_SECONDS
            for caller in [caller for caller in self._callers.values() if caller.since < late]:
                self._let_go(caller).close()

    def _accept(self, listening: socket.socket, token: str | None) -> None:
        try:
            connection, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError as error:  # it is gone again, or no descriptor is left
            log.warning("A request to the device could not be taken: %s", error)
            time.sleep(0.1)
            return
        connection.setblocking(False)
        if len(self._callers) >= MOST_WAITING:
            self._let_go(min(self._callers.values(), key=lambda caller: caller.since)).close()
        self._callers[connection.fileno()] = Caller(connection, token, time.monotonic())
        self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, caller: Caller) -> None:
        try:
            came = caller.connection.recv(LARGEST_HEAD)
        except BlockingIOError:
            return
        except OSError:
            came = b""
        caller.head += came
        if any(end in caller.head for end in ENDS):
            self._hand_over(caller)
        elif not came or len(caller.head) > LARGEST_HEAD:
            self._let_go(caller).close()

    def _hand_over(self, caller: Caller) -> None:
        connection = self._let_go(caller)
        if caller.token is not None and not _shows(bytes(caller.head), caller.token):
            refuse(connection, 401, "Unauthorized", "Send the token of control.token as Authorization: Bearer.")
        elif not self._slots.acquire(blocking=False):
            refuse(connection, 503, "Service Unavailable", "Too many requests at once.")
        else:
            given = (connection, bytes(caller.head))
            try:
                threading.Thread(target=self._serve_and_close, args=given, name="request", daemon=True).start()
            except RuntimeError:  # the service may have no further task
                self._slots.release()
                refuse(connection, 503, "Service Unavailable", "No task is left for this request.")

    def _serve_and_close(self, connection: socket.socket, head: bytes) -> None:
        try:
            self._serve(connection, head)
        except OSError:
            log.debug("control: the client is gone")
        finally:
            connection.close()
            self._slots.release()

    def _let_go(self, caller: Caller) -> socket.socket:
        self._selector.unregister(caller.connection)
        del self._callers[caller.connection.fileno()]
        return caller.connection


class Joined(io.RawIOBase):
    """What was read of a connection, and then the connection."""

    def __init__(self, head: bytes, connection: socket.socket) -> None:
        self._head, self._connection = memoryview(head), connection

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # what BufferedReader gives it
        """Fill what fits."""
        if not self._head:
            return self._connection.recv_into(buffer)
        count = min(len(buffer), len(self._head))
        buffer[:count] = self._head[:count]
        self._head = self._head[count:]
        return count


def refuse(connection: socket.socket, status: int, phrase: str, sentence: str) -> None:
    """Say no, without waiting for anybody, and hang up."""
    body = b'{"error": "%s"}' % sentence.encode()
    head = f"HTTP/1.0 {status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        connection.send(head.encode() + body)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        log.debug("control: the client is gone")
    finally:
        connection.close()


def _shows(head: bytes, token: str) -> bool:
    """Whether the headers have the token, once."""
    given = [
        line.partition(b":")[2].strip() for line in head.splitlines()[1:] if line[:14].lower() == b"authorization:"
    ]
    return len(given) == 1 and hmac.compare_digest(given[0], f"Bearer {token}".encode())
