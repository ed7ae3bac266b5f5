"""Many devices whose connections fall silent together, or come and go all the time (RELIABILITY F6 and F7).

With AURICLE_FULL_SIZE in the environment 40 devices and ten minutes of flapping instead of 10 and half a minute.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from auricle_cloud.storage.store import Store
from tests.recorder import Record
from tests.system.child import Child, until
from tests.system.network_proxy import NetworkProxy
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.toy_fleet import ToyFleet, succeeded, toy_fleet, watching

DEVICES, SECONDS = (40, 600.0) if "AURICLE_FULL_SIZE" in os.environ else (10, 30.0)  # SECONDS of flapping
NAMES = tuple(f"dev-{i:02d}" for i in range(DEVICES))
FLAPPING = NAMES[: DEVICES * 3 // 10]
EVERY = 3.0  # seconds between two flaps of a device
KEEPALIVE, FLAPPING_KEEPALIVE = 40 if DEVICES > 10 else 20, 4  # seconds
"""A link looks once a second: half a keepalive is some seconds, so that 1.5 of them can be told."""
APART = 60.0 if DEVICES > 10 else 30.0  # seconds that the network is away at least
LEAST = 3  # rounds that end while devices flap
ENDLESS = 3_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), NEEDS_MOSQUITTO]


@asynccontextmanager
async def far_fleet(folder: Path, keepalive: int) -> AsyncIterator[tuple[ToyFleet, dict[str, NetworkProxy]]]:
    """A fleet of agents in this process, each behind a network of its own."""
    async with toy_fleet(folder, NAMES) as fleet, AsyncExitStack() as stack:
        proxies = {name: await stack.enter_async_context(NetworkProxy(fleet.broker.port)) for name in NAMES}
        fleet.ports = {name: proxy.port for name, proxy in proxies.items()}
        fleet.keepalive = keepalive
        yield fleet, proxies


def online(store: Store) -> dict[str, str]:
    """Boot by device, of those that the coordinator believes to be here."""
    return {row.device: row.boot for row in store.devices.all() if row.online}


def full_rounds(coordinator: Child) -> int:
    return sum(line.get("counted") == DEVICES for line in coordinator.lines)


async def everybody_counts(coordinator: Child, rounds: int) -> None:
    """Wait for so many more rounds of everybody."""
    wanted = full_rounds(coordinator) + rounds
    await until(lambda: full_rounds(coordinator) >= wanted, "rounds of everybody", 300)


@pytest.mark.reliability("F6", load="10 devices silent together for 30 s; 40 for 60 s at full size")
@pytest.mark.slow
@pytest.mark.nightly
async def test_a_fleet_that_is_cut_off_in_silence_is_known_to_be_gone_and_counts_once_when_it_is_back(
    tmp_path: Path, record_property: Record
) -> None:
    async with far_fleet(tmp_path, KEEPALIVE) as (fleet, proxies):
        coordinator = await fleet.coordinator(ENDLESS, quorum=0.5, deadline=120.0)
        with watching(fleet) as store:
            await everybody_counts(coordinator, 2)
            began = time.monotonic()
            for proxy in proxies.values():
                proxy.part()
            await until(
                lambda: not any(a.link.connected for a in fleet.agents.values()), "all agents to notice", 3 * KEEPALIVE
            )
            record_property("agents noticed after keepalives", round((time.monotonic() - began) / KEEPALIVE, 2))
            await until(lambda: not online(store), "the coordinator to notice", 3 * KEEPALIVE)
            record_property("coordinator noticed after keepalives", round((time.monotonic() - began) / KEEPALIVE, 2))
            await until(lambda: time.monotonic() > began + APART, "the end of the silence", APART + 60)
            for proxy in proxies.values():
                proxy.heal()
            healed = time.monotonic()
            record_property("silent s", round(healed - began))
            await fleet.back(120)
            record_property("all back after s", round(time.monotonic() - healed, 1))
            await everybody_counts(coordinator, 2)
            assert online(store) == {name: agent.boot for name, agent in fleet.agents.items()}
            coordinator.process.terminate()
            await succeeded(coordinator)
        fleet.verify(ENDLESS, everybody=False, stopped=True, record=record_property)


@pytest.mark.reliability("F7", load="3 of 10 devices every 3 s for 30 s; 12 of 40 for 10 min at full size")
@pytest.mark.nightly
async def test_devices_that_come_and_go_hold_no_round_up_and_presence_is_right_by_boot(
    tmp_path: Path, record_property: Record
) -> None:
    """A flap is a reset, a connection that only the broker still believes in, or the latter and another boot."""
    rng, flaps = random.Random(3), {"reset": 0, "half-open": 0, "reboot": 0}
    wrong: list[str] = []

    async def flap(fleet: ToyFleet, proxies: dict[str, NetworkProxy], name: str) -> None:
        kind = rng.choice(list(flaps))
        flaps[kind] += 1
        if kind == "reset":
            proxies[name].reset()
            return
        proxies[name].forsake()
        if kind == "reboot":
            agent = fleet.agents[name]
            await until(lambda: not agent.link.connected, "the agent to notice")
            await fleet.reboot_agent(name)

    def steady(store: Store, moment: float) -> bool:
        """Whether a time has come; on the way the others have to be here all the while."""
        wrong.extend(sorted(set(NAMES) - set(FLAPPING) - set(online(store))))
        return time.monotonic() >= moment

    async with far_fleet(tmp_path, FLAPPING_KEEPALIVE) as (fleet, proxies):
        coordinator = await fleet.coordinator(ENDLESS, quorum=0.6, deadline=60.0)
        with watching(fleet) as store:
            await everybody_counts(coordinator, 1)
            before, began = len(coordinator.lines), time.monotonic()
            moment = began
            while moment < began + SECONDS or len(coordinator.lines) < before + LEAST:
                moment = max(moment + EVERY, time.monotonic())
                await asyncio.gather(*(flap(fleet, proxies, name) for name in FLAPPING))
                await until(lambda: steady(store, moment), "the next flap", 300)  # noqa: B023
            during = coordinator.lines[before:]
            record_property("flapping s", round(time.monotonic() - began))
            record_property("flaps", sum(flaps.values()))
            record_property("rounds meanwhile", len(during))
            record_property("steady devices taken for gone", len(set(wrong)))
            await fleet.back(120)
            await everybody_counts(coordinator, 2)
            there = online(store)
            record_property("wrong boots", sum(there.get(name) != agent.boot for name, agent in fleet.agents.items()))
            assert there == {name: agent.boot for name, agent in fleet.agents.items()}
            coordinator.process.terminate()
            await succeeded(coordinator)
        assert wrong == [], "a steady device was taken for gone"
        assert all(flaps.values()), flaps
        assert {line["state"] for line in during} == {"published"}
        rows = fleet.verify(ENDLESS, everybody=False, stopped=True, record=record_property)
        for line in during:
            counted = {row.device for row in rows if row.round == line["round"]}
            assert set(NAMES) - set(FLAPPING) <= counted, line
