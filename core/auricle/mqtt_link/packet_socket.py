"""A socket that gives whole packets, and sends all packets of a turn of the loop together.

The MQTT library reads and writes here as well: it gets the packets that are left to it, and none of its bytes waits
before another packet's.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from auricle.mqtt_link.packets import MalformedPacketError, extent

PIECE_BYTES = 1 << 18
"""Bytes that are asked for at once."""


class _Scratch(threading.local):
    """Where sockets of a thread read into, one after the other: a thousand links have one."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(PIECE_BYTES))


_scratch = _Scratch()


class PacketSocket:
    """What came and was not taken yet, and what is to be sent.

    Parameters
    ----------
    sock
        Connected, and not blocking; with TLS or without.
    largest
        Bytes that a packet may have: a longer one is never taken in.
    """

    def __init__(self, sock: socket.socket, largest: int) -> None:
        self._sock, self._largest = sock, largest
        self._secure = hasattr(sock, "pending")  # with TLS: a device without it does without ssl
        self._blocked: tuple[type[OSError], ...] = (BlockingIOError,)
        """What it raises that has nothing now, or no room."""
        if self._secure:
            import ssl

            self._blocked = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        self._came, self._place = bytearray(), 0
        self._left, self._ended = b"", False
        self._out = bytearray()

    # -- for the loop

    def fill(self) -> bool:
        """Read what is there, at most a piece; whether there may be more. The end and errors the library sees."""
        try:
            count = self._sock.recv_into(_scratch.view)
        except self._blocked:
            return False
        except OSError:
            count = 0
        if count == 0:
            self._ended = True
            return False
        self._came += _scratch.view[:count]
        return self._secure or count == PIECE_BYTES

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._ended

    def packet(self) -> tuple[int, bytearray, int, int] | None:
        """The next whole packet: its first byte, and where its contents lie, until the next call; None: not yet.

        Raises
        ------
        MalformedPacketError
            It is not a packet, or is longer than the agreed size.
        """
        if self._place:
            del self._came[: self._place]
            self._place = 0
        if not self._came:
            return None
        where = extent(self._came)
        if where is None:
            return None
        start, stop = where
        if stop > self._largest:
            raise MalformedPacketError("a packet above the agreed size")
        if stop > len(self._came):
            return None
        self._place = stop
        return self._came[0], self._came, start, stop

    def leave(self) -> None:
        """Leave the packet that was given last to the library."""
        self._left += self._came[: self._place]

    def write(self, *parts: bytes) -> None:
        """Have bytes sent, after everything that was written before."""
        for part in parts:
            self._out += part

    @property
    def backlog(self) -> int:
        """Bytes that are not sent yet."""
        return len(self._out)

    def flush(self) -> None:
        """Send what the socket has room for; OSError where the connection is over."""
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except self._blocked:
            return

    # -- for the library

    def recv(self, size: int) -> bytes:
        """At most so many bytes of what was left to it; none at the end, BlockingIOError where nothing came."""
        piece, self._left = self._left[:size], self._left[size:]
        if not piece and not self._ended:
            raise BlockingIOError
        return piece

    def send(self, data: bytes | bytearray) -> int:
        """Take bytes, all of them."""
        self._out += data
        return len(data)

    def fileno(self) -> int:
        """As of a socket."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close, after what there is still room for: the last word may be a DISCONNECT."""
        with contextlib.suppress(OSError):
            self.flush()
        self._sock.close()
