"""One program that is connected, such as a Home Assistant: greeted, kept alive, its messages passed on in bounds."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping

from aioesphomeapi import api_pb2 as pb
from aioesphomeapi.core import MESSAGE_TYPE_TO_PROTO
from google.protobuf.message import DecodeError, Message

from auricle.errors import WireError
from auricle_edge.listening.assist.frames import MESSAGE_SECONDS, ApiFrames, FramesError

TYPES: Mapping[type[Message], int] = {kind: number for number, kind in MESSAGE_TYPE_TO_PROTO.items()}
IDLE_SECONDS = 60.0
"""Without a message after which a client is asked whether it is there, and after as long again hung up on."""
WAITING_BYTES = 1 << 20
"""Bytes that may wait for a client that takes nothing: half a minute of sound."""
LEAVING_SECONDS = 2.0
API_VERSION = (1, 10)
"""Of the native API: the first that has all that a satellite needs."""


class HomeConnection:
    """A client from its first byte to its last.

    Parameters
    ----------
    frames
        Cuts its bytes into messages.
    writer
        Of the connection.
    name
        Of this device, as it is greeted with.
    take
        Called with each message that is not about the connection itself.
    """

    def __init__(
        self,
        frames: ApiFrames,
        writer: asyncio.StreamWriter,
        name: str,
        take: Callable[[HomeConnection, Message], None],
    ) -> None:
        self._frames, self._writer, self._name, self._take = frames, writer, name, take
        peer = writer.get_extra_info("peername") or ("somebody",)
        self.address = str(peer[0])
        self.encrypted = frames.encrypted
        self.greeted = False
        """Whether it has said hello, with the key where there is one."""
        self.wants_states = False
        self._over = False

    async def run(self) -> None:
        """Serve it until it leaves.

        Raises
        ------
        WireError
            What it sent is not a message, or it does not answer.
        OSError
            The connection is gone.
        """
        ours = self._writer.get_extra_info("socket")
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.wait_for(self._frames.greet(self._writer), MESSAGE_SECONDS)
            while not self._over:
                await self._next()
        except FramesError as error:
            self._writer.write(error.answer)
            raise
        except asyncio.TimeoutError as error:
            raise WireError("it did not greet in time") from error
        except asyncio.IncompleteReadError:
            return

    def send(self, *messages: Message) -> None:
        """Send messages, in order; who takes nothing is cut off."""
        if self._writer.is_closing():
            return
        self._writer.write(
            b"".join(self._frames.pack(TYPES[type(each)], each.SerializeToString()) for each in messages)
        )
        if self._writer.transport.get_write_buffer_size() > WAITING_BYTES:
            self._writer.transport.abort()

    def hang_up(self) -> None:
        """Close the connection once what was sent has gone."""
        self._over = True
        self._writer.close()

    async def leave(self) -> None:
        """Close the connection, also to one that does not take what it was sent."""
        self.hang_up()
        try:
            await asyncio.wait_for(self._writer.wait_closed(), LEAVING_SECONDS)
        except (OSError, asyncio.TimeoutError):
            self._writer.transport.abort()

    async def _next(self) -> None:
        """Take one message."""
        kind, payload = await self._read()
        known = MESSAGE_TYPE_TO_PROTO.get(kind)
        if known is None:
            return
        try:
            message = known.FromString(payload)
        except DecodeError as error:
            raise WireError(f"a {known.__name__} of it cannot be read") from error
        self._answer(message)

    async def _read(self) -> tuple[int, bytes]:
        try:
            return await self._frames.read(IDLE_SECONDS if self.greeted else MESSAGE_SECONDS)
        except asyncio.TimeoutError:
            if not self.greeted:
                raise
        self.send(pb.PingRequest())
        try:
            return await self._frames.read(IDLE_SECONDS)
        except asyncio.TimeoutError as error:
            raise WireError(f"it said nothing for {2 * IDLE_SECONDS:.0f} s") from error

    def _answer(self, message: Message) -> None:
        if isinstance(message, pb.HelloRequest):
            self.greeted = True
            major, minor = API_VERSION
            self.send(pb.HelloResponse(api_version_major=major, api_version_minor=minor, name=self._name))
        elif not self.greeted:
            raise WireError("it did not say hello first")
        elif isinstance(message, pb.AuthenticationRequest):
            self.send(pb.AuthenticationResponse())
        elif isinstance(message, pb.PingRequest):
            self.send(pb.PingResponse())
        elif isinstance(message, pb.DisconnectRequest):
            self.send(pb.DisconnectResponse())
            self.hang_up()
        else:
            self._take(self, message)
