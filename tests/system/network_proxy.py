"""A bad network between clients and a broker: a TCP proxy that delays, throttles, cuts, and falls silent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from types import TracebackType

HOST = "127.0.0.1"


class _Passage:
    def __init__(self, client: asyncio.StreamWriter, broker: asyncio.StreamWriter) -> None:
        self.client, self.broker = client, broker
        self.may_pass = {"up": asyncio.Event(), "down": asyncio.Event()}
        for way in self.may_pass.values():
            way.set()
        self.left: int | None = None  # bytes upwards after which it is cut
        self.forsaken = False  # the client is gone, and the broker is not told

    def reset(self) -> None:
        """Close both ends with a RST: what is under way is gone."""
        self.cut(self.client, self.broker)

    @staticmethod
    def cut(*ends: asyncio.StreamWriter) -> None:
        for writer in ends:
            sock = writer.get_extra_info("socket")
            if sock is not None and not writer.is_closing():
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class NetworkProxy:
    """Listens on a free loopback port and passes on to a broker."""

    def __init__(self, port: int, host: str = HOST) -> None:
        self._target, self.host = port, host
        self._passages: set[_Passage] = set()
        self._server: asyncio.Server | None = None
        self._taken: set[asyncio.Task[None]] = set()
        self.port = 0
        self.delay = 0.0  # seconds that everything takes, each way
        self.rate = 0.0  # bytes a second, each way; 0: no limit
        self.connections = 0
        self._parted = False

    async def __aenter__(self) -> NetworkProxy:
        self._server = await asyncio.start_server(self._take, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.heal()
        self.reset()
        await asyncio.gather(*self._taken, return_exceptions=True)

    # -- faults

    def reset(self) -> None:
        for passage in list(self._passages):
            passage.reset()

    def cut_after(self, count: int) -> None:
        """Cut the connections there are once so many more bytes went up: a packet ends in its middle."""
        for passage in self._passages:
            passage.left = count

    def hold(self, *ways: str) -> None:
        """Pass nothing on any more over the connections there are, `up` or `down`; nobody is told."""
        for passage in self._passages:
            for way in ways:
                passage.may_pass[way].clear()

    def release(self) -> None:
        """Pass on what was held, and everything after it."""
        for passage in self._passages:
            for way in passage.may_pass.values():
                way.set()

    def part(self) -> None:
        """Pass nothing on any more, also over connections that are opened from now on; nobody is told."""
        self._parted = True
        self.hold("up", "down")

    def heal(self) -> None:
        """The network is back, and with it everything that was held."""
        self._parted = False
        self.release()

    def forsake(self) -> None:
        """Cut the clients' ends alone: the broker goes on believing in connections of which nobody is left."""
        for passage in self._passages:
            passage.forsaken = True
            passage.cut(passage.client)

    def seen(self, way: str, data: bytes) -> None:
        """What passes, for one who listens in."""

    # -- passing on

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._taken.add(task)
        task.add_done_callback(self._taken.discard)
        try:
            from_broker, to_broker = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.transport.abort()
            return
        passage = _Passage(writer, to_broker)
        self._passages.add(passage)
        if self._parted:
            self.hold("up", "down")
        ways = [
            asyncio.ensure_future(self._pass(passage, "up", reader, to_broker)),
            asyncio.ensure_future(self._pass(passage, "down", from_broker, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if passage.forsaken:
                await self._end(ways)
                with contextlib.suppress(ConnectionError):
                    while await from_broker.read(1 << 14):
                        """The broker's end, until it hangs up by itself."""
        finally:
            self._passages.discard(passage)
            await self._end(ways)
            for end in (writer, to_broker):
                end.close()

    @staticmethod
    async def _end(ways: list[asyncio.Future[None]]) -> None:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(
        self, passage: _Passage, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(1 << 14):
            await asyncio.sleep(self.delay + (len(data) / self.rate if self.rate else 0.0))
            await passage.may_pass[way].wait()
            self.seen(way, data)
            if way == "up" and passage.left is not None:
                data, passage.left = data[: passage.left], passage.left - len(data)
            writer.write(data)
            await writer.drain()
            if way == "up" and passage.left is not None and passage.left <= 0:
                return
