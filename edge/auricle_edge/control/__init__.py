"""Talking to the running service of this device: HTTP on a socket in its folder, and on loopback when asked for."""

from auricle_edge.control.client import SOCKET, ControlClient
from auricle_edge.control.server import Actions, ControlServer, ControlSettings

__all__ = ["SOCKET", "Actions", "ControlClient", "ControlServer", "ControlSettings"]
