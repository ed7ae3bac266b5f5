"""A relay between a link and its broker."""

from __future__ import annotations

import asyncio


class Proxy:
    """A TCP relay in front of a broker that counts its connections and can break them."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.accepted = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.sever()

    def sever(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, there_writer]
        await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()
