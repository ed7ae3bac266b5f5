"""A socket that is read in large pieces, for a library that asks for single bytes: most packets then take one read."""

from __future__ import annotations

import socket

PIECE = 1 << 14
"""Bytes that are asked for at once."""


class BufferedSocket:
    """What an MQTT client asks of a socket without TLS, with what came and was not asked for yet.

    Parameters
    ----------
    sock
        Connected, and not blocking.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._held, self._place = b"", 0

    def pending(self) -> int:
        """Bytes that `recv` gives without a read: they make no socket readable."""
        return len(self._held) - self._place

    def recv(self, size: int) -> bytes:
        """At most so many bytes; none where the other side has closed, BlockingIOError where nothing came."""
        if not self.pending():
            if size >= PIECE:
                return self._sock.recv(size)
            self._held, self._place = self._sock.recv(PIECE), 0
        piece = self._held[self._place : self._place + size]
        self._place += len(piece)
        return piece

    def send(self, data: bytes | bytearray) -> int:
        """As of a socket."""
        return self._sock.send(data)

    def fileno(self) -> int:
        """As of a socket."""
        return self._sock.fileno()

    def close(self) -> None:
        """As of a socket."""
        self._held, self._place = b"", 0
        self._sock.close()
