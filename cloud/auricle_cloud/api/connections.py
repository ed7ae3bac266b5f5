"""The API's connections, counted before TLS: who holds one without asking for anything loses it to who comes.

A TLS connection costs about 270 kB before it has said a word, and every connection a descriptor that the broker's link
and the database may need. So connections are limited, in all and by address, a share of the process's descriptors is
never given to them, and a connection has seconds to finish its handshake and to bring each request. Until all of a
request is there, its connection has asked for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import socket
import ssl
import struct
import sys
import termios
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from auricle.mqtt_link.tasks import start_task
from auricle.process.open_files import open_files_limit
from auricle_cloud.api.api_settings import ConnectionLimits
from auricle_cloud.api.bodies import Bodies
from auricle_cloud.api.gatekeeper import address_of, counted_address
from auricle_cloud.api.problems import Handler

log = logging.getLogger("auricle.cloud.api")

BACKLOG = 128
RESERVE_DESCRIPTORS = 256
"""Descriptors that connections never take: they are the broker's, the database's, and of the releases that are read."""
DESCRIPTORS = Path("/dev/fd")
"""This process's, on every system with one."""
SENDING_SECONDS = 600.0
"""An answer may take so long to be read, once it is on its way."""
STALLED_SECONDS = 60
"""A peer that takes in nothing of an answer for so long is cut off, on Linux; elsewhere after `SENDING_SECONDS`."""


@dataclass(eq=False)
class Held:
    """One open connection."""

    socket: socket.socket
    address: str
    since: float
    """When it was opened, brought a request's head, or ended its last request."""
    asking: int = 0
    """Requests that are being answered."""
    task: asyncio.Task[None] | None = None
    transport: asyncio.BaseTransport | None = None

    @property
    def gone(self) -> bool:
        """Whether its descriptor is free again."""
        return self.socket.fileno() < 0

    def waits(self, now: float, seconds: float) -> bool:
        """Whether it has asked for nothing for so long, and has taken what it was sent."""
        idle = now - self.since
        return not self.asking and idle > seconds and (idle > SENDING_SECONDS or not self.unsent)

    @property
    def unsent(self) -> int:
        """Bytes of answers that the other side has not confirmed: on a slow network these take their time."""
        if self.gone or not isinstance(self.transport, asyncio.WriteTransport):
            return 0
        queued: int = 0
        if sys.platform.startswith("linux"):  # elsewhere what the kernel still holds is not known
            queued = struct.unpack("i", fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4)))[0]
        return queued + self.transport.get_write_buffer_size()

    def close_unless_open(self, _: asyncio.Task[None]) -> None:
        """Free the descriptor after a handshake that came to nothing."""
        if self.transport is None:
            self.socket.close()

    def cut(self) -> None:
        """End it now."""
        if self.transport is not None:
            assert isinstance(self.transport, asyncio.WriteTransport)
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


@dataclass(eq=False)
class Connections:
    """All connections of one server.

    Parameters
    ----------
    limits
        How many, and for how long.
    tls
        What they are encrypted with; None: not at all.
    """

    limits: ConnectionLimits
    tls: ssl.SSLContext | None = None
    _held: dict[RequestHandler, Held] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _sockets: list[socket.socket] = field(default_factory=list)
    _most_now: int = 1
    """So many leave the reserve untouched."""

    def __post_init__(self) -> None:
        """Nothing waits for its body yet."""
        self._bodies = Bodies(self.limits)

    @web.middleware
    async def mark(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note that a connection has asked for something, body included: it may not be ended in favour of another."""
        held = self._held.get(request.protocol)
        if held is not None:
            held.since = asyncio.get_running_loop().time()
        address = address_of(request)
        await self._bodies.arrive(request, address, shared=_is_here(address))
        if held is None:
            return await handler(request)
        held.asking += 1
        try:
            return await handler(request)
        finally:
            held.asking -= 1
            held.since = asyncio.get_running_loop().time()

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Bind; gives the first address and port. OSError when they cannot be had."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        absent = OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                self._listen(family, kind, protocol, address)
            except OSError as error:
                # A name may have an address of a family that this machine does not have: localhost and ::1.
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    raise
                absent = error
        if not self._sockets:
            raise absent
        name = self._sockets[0].getsockname()
        return name[0], name[1]

    def _listen(self, family: int, kind: int, protocol: int, address: Any) -> None:  # noqa: ANN401 - by the family
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setblocking(False)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address)
            bound.listen(BACKLOG)
        except OSError:
            bound.close()
            raise
        self._sockets.append(bound)

    def serve(self, server: web.Server) -> None:
        """Begin to accept."""
        self._count_descriptors()
        for bound in self._sockets:
            self._start(self._accept(bound, server))
        self._start(self._sweep())

    async def close(self) -> None:
        """Accept no more, and end what still shakes hands."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for bound in self._sockets:
            bound.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = start_task(work, log, "A connection to the API")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, bound: socket.socket, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # In a flood accepting waits for nothing: here others go on, and what was cut is closed.
            await asyncio.sleep(0)
            try:
                taken, peer = await loop.sock_accept(bound)
            except OSError:  # it went away before it was accepted, or no descriptor is left
                self._cut_idle(loop.time())
                await asyncio.sleep(0.1)
                continue
            address = counted_address(peer[0])
            if not self._room_for(address):
                taken.close()
                continue
            if sys.platform.startswith("linux"):
                with contextlib.suppress(OSError):
                    taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
            held, handler = Held(taken, address, loop.time()), server()
            self._held[handler] = held
            held.task = self._start(self._shake_hands(held, handler))
            held.task.add_done_callback(held.close_unless_open)

    async def _shake_hands(self, held: Held, handler: RequestHandler) -> None:
        loop = asyncio.get_running_loop()
        seconds = self.limits.head_seconds if self.tls is not None else None
        with contextlib.suppress(OSError):  # it is no TLS, or took too long
            held.transport, _ = await loop.connect_accepted_socket(
                lambda: handler, held.socket, ssl=self.tls, ssl_handshake_timeout=seconds
            )

    def _room_for(self, address: str) -> bool:
        """Whether a connection may stay; one that asks for nothing is ended for it where there is no room."""
        most = min(self.limits.most, self._most_now)
        if len(self._held) < min(most, self.limits.most_each):
            return True
        self._forget_gone()
        by_address = Counter(held.address for held in self._held.values())
        if by_address[address] >= self.limits.most_each and not _is_here(address):
            return self._cut_longest(address)
        if len(self._held) >= most:
            waiting = Counter(held.address for held in self._held.values() if not held.asking)
            return bool(waiting) and self._cut_longest(waiting.most_common(1)[0][0])
        return True

    def _cut_longest(self, address: str) -> bool:
        """End the connection of an address that has asked for nothing for longest; False where all ask."""
        idle = [each for each in self._held.items() if each[1].address == address and not each[1].asking]
        if not idle:
            return False
        handler, _ = min(idle, key=lambda each: (each[1].unsent > 0, each[1].since))
        self._held.pop(handler).cut()
        return True

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(1.0, self.limits.head_seconds / 2))
            self._cut_idle(loop.time())
            self._count_descriptors()

    def _count_descriptors(self) -> None:
        """Leave the rest of the process what it holds, and the reserve."""
        limit = open_files_limit()
        try:
            others = sum(1 for _ in DESCRIPTORS.iterdir()) - len(self._held) if DESCRIPTORS.is_dir() else 0
        except OSError:  # no descriptor is left to count them with
            others = limit
        self._most_now = max(1, limit - min(RESERVE_DESCRIPTORS, limit // 4) - others)

    def _cut_idle(self, now: float) -> None:
        self._forget_gone()
        for held in self._held.values():
            if held.waits(now, self.limits.head_seconds):
                held.cut()

    def _forget_gone(self) -> None:
        for handler in [handler for handler, held in self._held.items() if held.gone]:
            del self._held[handler]


def _is_here(address: str) -> bool:
    """Whether it is this machine, where a proxy brings everybody's requests from one address."""
    with contextlib.suppress(ValueError):
        return ip_address(address.partition("/")[0]).is_loopback
    return False
