"""A group's network: what passes it is late and limited, cut off, and never changed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass

from auricle_fleet.emulation.slow_link import slow_link
from auricle_fleet.groups import Network


@dataclass
class Echo:
    """A server that says back what it hears."""

    connections: int = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()


def through(network: Network, size: int) -> tuple[float, bytes]:
    """Seconds until so many bytes are back, and what came."""

    async def case() -> tuple[float, bytes]:
        echo = Echo()
        server = await asyncio.start_server(echo.take, "127.0.0.1", 0)
        async with server, slow_link("127.0.0.1", server.sockets[0].getsockname()[1], network, 0) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            began = asyncio.get_running_loop().time()
            writer.write(bytes(range(256)) * (size // 256))
            back = b""
            while len(back) < size and (data := await reader.read(1 << 16)):
                back += data
            took = asyncio.get_running_loop().time() - began
            writer.close()
            return took, back

    return asyncio.run(asyncio.wait_for(case(), 60))


def test_a_slow_network_delays_and_limits_and_changes_nothing() -> None:
    said = bytes(range(256)) * 256
    took, back = through(Network(latency=0.1, kilobits=1000), 65_536)  # 0.52 s a way on the line, beginning again later
    assert back == said and took >= 0.7
    took, back = through(Network(latency=0.2), 65_536)
    assert back == said and took >= 0.4


def test_a_bad_network_cuts() -> None:
    _, back = through(Network(kilobits=8.0, cut=0.2), 65_536)
    assert len(back) < 65_536


def test_a_device_that_breaks_off_is_gone_for_the_broker_too() -> None:
    async def case() -> bytes:
        heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def take(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                heard.set_result(await reader.read())

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        network = Network(latency=0.01)
        async with server, slow_link("127.0.0.1", server.sockets[0].getsockname()[1], network, 0) as port:
            device = socket.create_connection(("127.0.0.1", port))
            device.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it ends with a reset
            await asyncio.sleep(0)
            device.close()
            return await asyncio.wait_for(heard, 20)

    assert asyncio.run(case()) == b""
