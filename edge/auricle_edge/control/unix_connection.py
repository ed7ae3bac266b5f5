"""HTTP over a socket file, for who asks a service."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from pathlib import Path

PATIENCE = 30.0
"""Seconds within which the service says something."""


class UnixConnection(HTTPConnection):
    """A connection to a socket file.

    Parameters
    ----------
    path
        The socket.
    """

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
