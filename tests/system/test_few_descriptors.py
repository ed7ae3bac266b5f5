"""A coordinator with 1,024 descriptors keeps API, broker and database under 1,140 half requests (RELIABILITY F13)."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from auricle.process.open_files import raise_open_files
from auricle_cloud.api.connections import RESERVE_DESCRIPTORS
from auricle_fleet.broker.broker import start_broker
from tests.recorder import Record
from tests.system.child import Child, until
from tests.system.tls_site import NEEDS_MOSQUITTO

DESCRIPTORS = 1024
CROWD = 1140
HALF = b"GET /v1/rounds HTTP/1.1\r\nHost: x\r\nX-Slow: "

pytestmark = [NEEDS_MOSQUITTO, pytest.mark.slow]


async def served(folder: Path, broker: str, *, connections: int) -> Child:
    """The real command, which may not lift its limit; its API takes nearly as many connections as there are files."""
    (folder / "coordinator.toml").write_text(f"[api]\nconnections = {connections}\n")
    command = f"ulimit -n {DESCRIPTORS}; exec {sys.executable} -m auricle cloud serve --broker {broker} --fleet f"
    options = f"--state {folder}/cloud --config {folder}/coordinator.toml --listen 127.0.0.1:0 --json --pack digits"
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", f"{command} {options}", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    return Child(process)


async def asked(port: int, path: str) -> str:
    """The first line of an answer; empty where there is none."""
    with contextlib.suppress(OSError, asyncio.TimeoutError):
        reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 10)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            return (await asyncio.wait_for(reader.readline(), 10)).decode().strip()
        finally:
            writer.close()
    return ""


async def answers(port: int, path: str, seconds: float = 60.0) -> None:
    loop = asyncio.get_running_loop()
    deadline, said = loop.time() + seconds, ""
    while said != "HTTP/1.1 200 OK":
        assert loop.time() < deadline, f"{path} answers {said!r}"
        said = await asked(port, path)


@pytest.mark.reliability("F13", load="half requests at ulimit -n 1024")
@pytest.mark.parametrize("connections", [400, 5000])
@pytest.mark.nightly
async def test_half_requests_take_neither_api_nor_broker_nor_database(
    tmp_path: Path, connections: int, record_property: Record
) -> None:
    """With its usual limit of connections, and with one above all descriptors, where only the reserve holds."""
    if raise_open_files() < 2 * DESCRIPTORS:
        pytest.skip(f"this system allows {resource.getrlimit(resource.RLIMIT_NOFILE)[1]} open files")

    users = {"coordinator": "secret"}
    async with await start_broker(tmp_path, users, fleet="f", persistence=False) as broker:
        child = await served(tmp_path, broker.address("coordinator").url, connections=connections)
        try:
            said = await child.line(lambda line: "page" in line)
            port = urlsplit(said["page"]).port or 0
            held = Path(f"/proc/{child.process.pid}/fd")
            await answers(port, "/readyz")
            with contextlib.ExitStack() as open_ones:
                for number in range(CROWD):
                    each = open_ones.enter_context(socket.create_connection(("127.0.0.1", port), 10))
                    with contextlib.suppress(OSError):
                        each.sendall(HALF)
                    record_property("half requests", number + 1)
                await answers(port, "/healthz")
                record_property("descriptors held", len(list(held.iterdir())))
                assert len(list(held.iterdir())) <= DESCRIPTORS - RESERVE_DESCRIPTORS * 3 / 4
                broker.kill()
                await broker.restart()
                began = time.monotonic()
                await answers(port, "/readyz")
                record_property("ready again s", round(time.monotonic() - began, 2))
                # And what asks for nothing is let go.
                await until(lambda: len(list(held.iterdir())) < 100, "idle connections to end")
            assert child.process.returncode is None
        finally:
            await child.kill()
