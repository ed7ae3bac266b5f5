"""Talking to the running service of this device: HTTP on a socket in its folder, and on loopback when asked for."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_edge.control.client import SOCKET, ControlClient
    from auricle_edge.control.server import Actions, ControlServer, ControlSettings

__all__ = ["SOCKET", "Actions", "ControlClient", "ControlServer", "ControlSettings"]

if not TYPE_CHECKING:  # a client needs no server
    __getattr__, __dir__ = promised(
        __name__,
        {
            **dict.fromkeys(("SOCKET", "ControlClient"), "auricle_edge.control.client"),
            **dict.fromkeys(("Actions", "ControlServer", "ControlSettings"), "auricle_edge.control.server"),
        },
    )
