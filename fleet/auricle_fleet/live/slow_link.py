"""A group's network: a TCP relay on loopback that delays, limits and cuts what passes between device and broker."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

from auricle_fleet.settings.groups import Network

HOST = "127.0.0.1"
_PIECE = 1 << 14
_UNDER_WAY = 64
"""Pieces that may be under way in one direction; then the sender waits."""


@contextlib.asynccontextmanager
async def slow_link(host: str, port: int, network: Network, seed: int) -> AsyncIterator[int]:
    """Relay to a broker as `network` says; gives the port to connect to.

    Parameters
    ----------
    host, port
        The broker's.
    seed
        Of the times at which connections are cut.
    """
    relays: set[asyncio.Task[None]] = set()
    rng = random.Random(seed)

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        relays.add(task)
        try:
            await _relay(reader, writer, host, port, network, rng)
        except asyncio.CancelledError:
            """The run ends."""
        finally:
            relays.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(take, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for relay in list(relays):
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    port: int,
    network: Network,
    rng: random.Random,
) -> None:
    try:
        from_broker, to_broker = await asyncio.open_connection(host, port)
    except OSError:
        return
    ways = [
        asyncio.ensure_future(_pass(reader, to_broker, network)),
        asyncio.ensure_future(_pass(from_broker, writer, network)),
    ]
    lives = None if network.cut is None else rng.expovariate(1 / network.cut)
    try:
        await asyncio.wait(ways, timeout=lives, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        to_broker.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, network: Network) -> None:
    """One direction: what was read is written once its time has come, in order."""
    clock = asyncio.get_running_loop().time
    rate = None if network.kilobits is None else network.kilobits * 1000 / 8
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)

    async def read() -> None:
        free = clock()  # when the line has sent what was put on it
        with contextlib.suppress(OSError):  # that side was cut off: what it said before still arrives
            while data := await reader.read(_PIECE):
                free = max(free, clock()) + (0.0 if rate is None else len(data) / rate)
                await pieces.put((free + network.latency, data))
        await pieces.put((max(free, clock()) + network.latency, b""))

    async def write() -> None:
        while True:
            due, data = await pieces.get()
            await asyncio.sleep(max(0.0, due - clock()))
            if not data:
                return
            writer.write(data)
            await writer.drain()

    reading = asyncio.ensure_future(read())
    try:
        await write()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
