"""Who listens where (docs/threats.md, Ports): the sockets of running processes, as they are begun without options."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.firstboot.house import free_port
from tests.system.command_lines import home
from tests.system.conftest import Command
from tests.system.listening_sockets import family, listening, on_network
from tests.system.virtual_room import VirtualRoom

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sockets are looked for in /proc")
DEVICE = "kitchen-1"


def test_a_socket_is_found_with_its_address_and_gone_when_it_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as here, socket.create_server(("0.0.0.0", 0)) as wide:
        places = {("127.0.0.1", here.getsockname()[1]), ("0.0.0.0", wide.getsockname()[1])}
        assert places <= listening(family(os.getpid()))
        assert on_network(places) == {("0.0.0.0", wide.getsockname()[1])}
    assert not places & listening(family(os.getpid()))


@pytest.mark.slow
@pytest.mark.nightly
def test_a_coordinator_and_its_broker_listen_on_loopback_and_an_agent_nowhere(
    tmp_path: Path, start: Callable[..., Command], room: VirtualRoom
) -> None:
    api = ("127.0.0.1", free_port())

    async def scenario() -> None:
        async with home(start, tmp_path, DEVICE) as here:
            coordinator = await here.coordinator(listen=f"{api[0]}:{api[1]}")
            agent = await here.device(DEVICE, source=room.source, pack="digits")
            broker = ("127.0.0.1", here.broker.port)
            assert listening(family(coordinator.process.pid)) == {api}
            assert listening(family(agent.process.pid)) == set()
            assert listening(family(os.getpid())) == {api, broker}

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_ray_cluster_that_begins_here_listens_on_loopback_without_a_dashboard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who reaches one of its ports may have it run any code."""
    pytest.importorskip("ray", reason="Ray is not installed")
    from auricle_fleet.virtual.ray_driver import RayDriver

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    before = listening(family(os.getpid()))
    driver = RayDriver("local", lambda: False)
    try:
        places = listening(family(os.getpid())) - before
        assert len(places) >= 3 and on_network(places) == set()
        assert 8265 not in {port for _, port in places}
    finally:
        driver.close()
