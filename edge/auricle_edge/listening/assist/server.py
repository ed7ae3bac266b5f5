"""The port on which Home Assistant reaches the satellite: how many may be connected, and what becomes of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from google.protobuf.message import Message

from auricle.errors import SettingsError, WireError, because
from auricle_edge.listening.assist.badge import Badge
from auricle_edge.listening.assist.connection import HomeConnection
from auricle_edge.listening.assist.frames import ApiFrames, FramesError, NoiseFrames, PlainFrames
from auricle_edge.listening.events.sparse_log import SparseLog

log = logging.getLogger("auricle.events")

MOST_CLIENTS = 8
LARGEST_READ = 1 << 17
"""Bytes that are taken in before they are asked for."""


class AssistServer:
    """Takes clients and passes on what they say.

    Parameters
    ----------
    host, port
        Where it listens.
    badge
        What it says of itself.
    key
        32 bytes that a client has to know; None: it is not asked for any.
    take
        Called with each message and the connection that it came over.
    gone
        Called with each connection that is over.
    """

    def __init__(
        self,
        host: str,
        port: int,
        badge: Badge,
        key: bytes | None,
        take: Callable[[HomeConnection, Message], None],
        gone: Callable[[HomeConnection], None],
    ) -> None:
        self._host, self._port, self._badge, self._key = host, port, badge, key
        self._take, self._leave = take, gone
        self._clients: list[HomeConnection] = []
        self._server: asyncio.Server | None = None
        self._sparse = SparseLog(log)

    @property
    def port(self) -> int:
        """Where it listens, also when it was asked for any free port (0)."""
        return self._port

    def __iter__(self) -> Iterator[HomeConnection]:
        """The connections that have said hello."""
        return iter([each for each in self._clients if each.greeted])

    async def open(self) -> None:
        """Listen; SettingsError when the address cannot be had."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=LARGEST_READ)
        except OSError as error:
            raise SettingsError(
                f"assist.listen cannot listen on {self._host}:{self._port}: {because(error)}."
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Hang up."""
        if self._server is not None:
            self._server.close()
            for client in tuple(self._clients):
                client.hang_up()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = HomeConnection(self._frames(reader), writer, self._badge.name, self._take)
        if not self._make_room():
            self._sparse.warning("A client of assist.listen was refused: %d are connected.", MOST_CLIENTS)
            await client.leave()
            return
        self._clients.append(client)
        try:
            await client.run()
        except FramesError as error:
            self._sparse.warning("A client of assist.listen at %s was refused: %s.", client.address, error)
        except WireError as error:
            self._sparse.warning("A client of assist.listen at %s was hung up on: %s.", client.address, error)
        except OSError as error:
            log.info("Home Assistant at %s is gone: %s", client.address, because(error))
        finally:
            if client in self._clients:
                self._clients.remove(client)
            self._leave(client)
            await client.leave()

    def _frames(self, reader: asyncio.StreamReader) -> ApiFrames:
        if self._key is None:
            return PlainFrames(reader)
        return NoiseFrames(reader, self._key, self._badge.name, self._badge.mac.replace(":", ""))

    def _make_room(self) -> bool:
        """End the oldest client that has not said hello, where all places are taken; whether there is one now."""
        if len(self._clients) < MOST_CLIENTS:
            return True
        mute = next((each for each in self._clients if not each.greeted), None)
        if mute is None:
            return False
        self._clients.remove(mute)
        mute.hang_up()
        return True
