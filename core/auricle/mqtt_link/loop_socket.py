"""The socket of an MQTT connection on the asyncio loop: read, written and kept alive without a thread.

PUBLISH and PUBACK go straight to the link; every other packet, and what has to be said in time, is the
library's (paho).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from typing import NamedTuple, cast

from paho.mqtt.client import Client

from auricle.mqtt_link import packets
from auricle.mqtt_link.packet_socket import PacketSocket
from auricle.mqtt_link.packets import MalformedPacketError, Published, read_puback, read_publish
from auricle.mqtt_link.ticker import ticker_of

log = logging.getLogger("auricle.mqtt")

READS_PIECES = 16
"""Pieces that are read in a row before others have their turn."""
BACKLOG_BYTES = 1 << 20
"""Bytes that wait to be sent, above which nothing that nobody acknowledges is added."""


class Receivers(NamedTuple):
    """Whom a socket tells; called on the loop, between two reads."""

    published: Callable[[Published], None]
    acknowledged: Callable[[int, int], None]
    """Packet id and reason code."""
    drained: Callable[[], None]
    """There is room again."""


class LoopSocket:
    """Drives one client from `attach` to `detach`.

    Parameters
    ----------
    name
        Of the client, for the log.
    largest
        See `PacketSocket`.
    receivers
        Whom to tell.
    drop
        Called when the connection is of no use any more: it closes the client.
    """

    def __init__(self, name: str, largest: int, receivers: Receivers, drop: Callable[[str], None]) -> None:
        self._name, self._largest, self._receivers, self._drop = name, largest, receivers, drop
        self._loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._sock: PacketSocket | None = None
        self._ticker = ticker_of(self._loop)
        self._properties = False
        self._wanted = True
        self._reading = False
        self._waking = False
        self._writing = False
        self._full = False
        self._heard = False
        self._pinged = 0.0
        self.was_reset = False
        """Whether the other side had closed the connection when something was sent."""

    def attach(self, client: Client, *, properties: bool) -> bool:
        """Begin; False where the client's connection is over already. `properties`: whether packets have any."""
        sock = cast("socket.socket | None", client.socket())
        if sock is None:
            return False
        self._properties = properties
        client._sock = self._sock = PacketSocket(sock, self._largest)  # type: ignore[assignment]
        self._client = client
        client.on_socket_close = lambda *_: self.detach()
        client.on_socket_register_write = lambda *_: self._wake()
        self._adjust_reading()
        if client.want_write():
            self._wake()
        self._ticker.add(self, self._tick)
        return True

    def detach(self) -> None:
        """End; nothing is read or written any more."""
        if self._sock is not None:
            self._watch_room(wanted=False)
            self._loop.remove_reader(self._sock)
            self._reading = False
            self._sock = None
        self._ticker.remove(self)
        self._client = None

    # -- reading

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
        for _ in range(READS_PIECES):
            if not self._reading or self._sock is None:
                break
            more = self._sock.fill()
            self._heard = True
            self._guard(self._take_packets)
            if not more:
                break
        else:
            self._loop.call_soon(self._readable)
        self._write()  # what was answered at once goes at once

    def _take_packets(self) -> None:
        while self._reading and self._sock is not None and self._client is not None:
            try:
                packet = self._sock.packet()
                if packet is None:
                    if self._sock.ended:
                        self._client.loop_read()
                    return
                self._take(*packet)
            except MalformedPacketError as error:
                log.warning("%s: the broker sent %s", self._name, error)
                self._drop(f"the broker sent {error}")

    def _take(self, first: int, data: bytearray, start: int, stop: int) -> None:
        match first & 0xF0:
            case packets.PUBLISH:
                self._receivers.published(read_publish(data, first, start, stop, properties=self._properties))
            case packets.PUBACK:
                self._receivers.acknowledged(*read_puback(data, start, stop))
            case _:
                assert self._sock is not None and self._client is not None
                self._sock.leave()
                self._client.loop_read()

    # -- writing

    @property
    def full(self) -> bool:
        """Whether so much waits to be sent that what nobody acknowledges has to wait; `drained` says when no more."""
        self._full = self._full or (self._sock is not None and self._sock.backlog > BACKLOG_BYTES)
        return self._full

    def write(self, *parts: bytes) -> None:
        """Send bytes in the loop's next turn, or at the end of this read, all packets together."""
        if self._sock is not None:
            self._sock.write(*parts)
            self._wake()

    def _wake(self) -> None:
        if not self._waking:
            self._waking = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        """Write; what the socket has no room for, once it has."""
        self._waking = False
        if self._client is not None and self._client.want_write():
            self._guard(self._client.loop_write)
        if self._sock is None:
            return
        try:
            self._sock.flush()
        except OSError as error:
            self.was_reset = isinstance(error, ConnectionResetError | BrokenPipeError)
            self._drop(f"the connection was lost: {error.strerror or error}")
            return
        self._watch_room(wanted=bool(self._sock.backlog))
        if self._full and not self._sock.backlog:
            self._full = False
            self._receivers.drained()

    def _watch_room(self, *, wanted: bool) -> None:
        if self._sock is None or wanted == self._writing:
            return
        self._writing = wanted
        if wanted:
            self._loop.add_writer(self._sock, self._write)
        else:
            self._loop.remove_writer(self._sock)

    # -- staying alive

    def _tick(self) -> None:
        if self._client is None:
            return
        if self._reading:
            if self._heard:  # paho sees only what is left to it
                self._heard, self._client._last_bytes_received = False, time.monotonic()
            self._guard(self._client.loop_misc)
            return
        if time.monotonic() - self._pinged > self._client.keepalive / 2:
            self._pinged = time.monotonic()
            self._guard(self._client._send_pingreq)
        if self._client is not None:
            # The answer lies unread in the socket, so paho must not count the seconds since the question.
            self._client._ping_t = 0.0

    def _guard(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:
            log.exception("%s: the MQTT library failed; connecting again", self._name)
            self._drop("the MQTT library failed")
