"""The socket of a paho client on the asyncio loop: read, written and kept alive without a thread."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import cast

from paho.mqtt.client import Client

from auricle.mqtt_link.buffered_socket import BufferedSocket
from auricle.mqtt_link.ticker import ticker_of

log = logging.getLogger("auricle.mqtt")


class LoopSocket:
    """Drives one client from `attach` to `detach`.

    Parameters
    ----------
    name
        Of the client, for the log.
    drop
        Called when the MQTT library failed: it closes the client.
    """

    def __init__(self, name: str, drop: Callable[[str], None]) -> None:
        self._name, self._drop = name, drop
        self._loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._sock: socket.socket | ssl.SSLSocket | BufferedSocket | None = None
        self._ticker = ticker_of(self._loop)
        self._wanted = True
        self._writing = False
        self._reading = False
        self._pinged = 0.0

    def attach(self, client: Client) -> bool:
        """Begin; False where the client's connection is over already."""
        sock = cast("socket.socket | None", client.socket())
        if sock is None:
            return False
        self._sock = sock
        if not isinstance(sock, ssl.SSLSocket):  # which has a buffer of its own
            client._sock = self._sock = BufferedSocket(sock)  # type: ignore[assignment]
        self._client = client
        client.on_socket_close = lambda *_: self.detach()
        client.on_socket_register_write = lambda *_: self._watch_write()
        client.on_socket_unregister_write = lambda *_: self._unwatch_write()
        self._adjust_reading()
        if client.want_write():
            self._watch_write()
        self._ticker.add(self, self._tick)
        return True

    def detach(self) -> None:
        """End; nothing is read or written any more."""
        if self._sock is not None:
            self._unwatch_write()
            self._loop.remove_reader(self._sock)
            self._reading = False
            self._sock = None
        self._ticker.remove(self)
        self._client = None

    def read(self, wanted: bool) -> None:
        """Read the socket, or stop it: what is not read fills TCP's window and then the broker's queue."""
        self._wanted = wanted
        self._adjust_reading()

    def _adjust_reading(self) -> None:
        if self._sock is None or self._wanted == self._reading:
            return
        self._reading = self._wanted
        if self._wanted:
            self._loop.add_reader(self._sock, self._readable)
            # What was read already, or decrypted by TLS, makes no socket readable.
            self._loop.call_soon(self._readable)
        else:
            self._loop.remove_reader(self._sock)

    def _readable(self) -> None:
        while self._reading and self._client is not None:
            self._guarded(self._client.loop_read)
            if not isinstance(self._sock, ssl.SSLSocket | BufferedSocket) or not self._sock.pending():
                return

    def _watch_write(self) -> None:
        """Write in the loop's next turn, all packets of this one together."""
        self._loop.call_soon(self._write)

    def _write(self) -> None:
        """Write; what the socket has no room for, once it has."""
        if self._client is not None:
            self._guarded(self._client.loop_write)
        if self._sock is not None and self._client is not None and self._client.want_write() and not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock, self._guarded, self._client.loop_write)

    def _unwatch_write(self) -> None:
        if self._sock is not None and self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock)

    def _tick(self) -> None:
        if self._client is None:
            return
        if self._reading:
            self._guarded(self._client.loop_misc)
            return
        if time.monotonic() - self._pinged > self._client.keepalive / 2:
            self._pinged = time.monotonic()
            self._guarded(self._client._send_pingreq)
        if self._client is not None:
            # The answer lies unread in the socket, so paho must not count the seconds since the question.
            self._client._ping_t = 0.0

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:
            log.exception("%s: the MQTT library failed; connecting again", self._name)
            self._drop("the MQTT library failed")
