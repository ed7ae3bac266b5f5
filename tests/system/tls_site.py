"""A mosquitto with the configuration that `auricle cloud enrol broker` writes, and identities of all kinds."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest

from auricle.errors import BrokerError
from auricle.mqtt_link.link import BrokerAddress, Delivery, Handler, LinkSettings, MqttLink
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.mqtt_link.private_link import IdentityFiles
from auricle.wire.frames import Topics
from auricle_cloud.identity.authority import Authority, key_pem
from auricle_cloud.identity.broker_folder import BrokerFolder
from auricle_cloud.identity.certificates import Key, new_key
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.identity.issuing import DAY_SECONDS
from auricle_cloud.storage.store import FILE, Store
from auricle_fleet.broker.process import BrokerProcess

FLEET = "f"
NEEDS_MOSQUITTO = pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed")
TOPICS = Topics(FLEET)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


T = TypeVar("T", bound="TlsSite")


class TlsSite:
    """An authority, a broker that believes it, and identities of all kinds."""

    def __init__(self, folder: Path, *, passwords: bool = False) -> None:
        self.folder = folder
        self._given: dict[str, BrokerAddress] = {}
        self.store = Store(folder / FILE)
        self.authority = Authority.create(folder / "authority", "Test")
        self.enrolment = Enrolment(self.authority, self.store.database)
        self.port = free_port()
        self.broker_folder = BrokerFolder(
            kind="mosquitto", fleet=FLEET, hosts=["127.0.0.1"], address="127.0.0.1", port=self.port, passwords=passwords
        )
        self.place = folder / "broker"
        self.broker_folder.write(self.place, self.enrolment, who="test")
        command = [str(find_mosquitto()), "-c", str(self.place / "mosquitto.conf")]
        self.process = BrokerProcess(command, folder / "broker.log", sign=" running\n")

    def given(self, folder: str, key: Key, chain: str) -> BrokerAddress:
        """The broker as seen by somebody who holds this chain and key."""
        files = IdentityFiles(self.folder / "identities" / folder)
        files.folder.mkdir(parents=True)
        files.key.write_bytes(key_pem(key))
        files.certificate.write_text(chain)
        files.authority.write_text(self.authority.root_pem)
        return files.lend(BrokerAddress.parse(f"mqtts://127.0.0.1:{self.port}"))

    def of(self, name: str, *, folder: str = "", until: float = DAY_SECONDS) -> BrokerAddress:
        """The broker as seen by the holder of a certificate with this name."""
        key = new_key()
        certificate = self.authority.certify(name, key.public_key(), time.time() + until)
        with self.enrolment.records.writing() as tx:
            self.enrolment._issuer.enter(tx, name, "device", certificate, 1.0, "test")
        return self.given(folder or name, key, self.authority.chain(certificate))

    def address(self, user: str) -> BrokerAddress:
        """As a fleet's broker answers: the same certificate each time."""
        if user not in self._given:
            self._given[user] = self.of(user)
        return self._given[user]

    async def reload(self) -> None:
        """Write the broker's folder again, and wait until the broker has read it."""
        log = self.folder / "broker.log"
        size = log.stat().st_size
        assert self.broker_folder.write(self.place, self.enrolment, who="test")
        await until(lambda: b"Reloading config" in log.read_bytes()[size:])


@asynccontextmanager
async def running(folder: Path, kind: type[T] = TlsSite, *, passwords: bool = False) -> AsyncIterator[T]:
    site = kind(folder, passwords=passwords)
    await site.process.start()
    try:
        yield site
    finally:
        await site.process.stop()
        site.store.close()


def noting(heard: list[str]) -> Handler:
    """Notes `topic payload` of what comes."""

    async def take(message: Delivery) -> None:
        heard.append(f"{message.topic} {message.payload.decode(errors='replace')}")

    return take


async def hear(listener: MqttLink, *filters: str) -> list[str]:
    """Subscribe, below the fleet's prefix; `topic payload` of all that comes from now on."""
    heard: list[str] = []
    for wanted in filters:
        with suppress(BrokerError):
            await listener.subscribe(
                wanted if wanted.startswith(("$", "#", "+", "auricle/")) else f"{TOPICS.prefix}/{wanted}", noting(heard)
            )
    return heard


@asynccontextmanager
async def connected(*links: MqttLink) -> AsyncIterator[None]:
    """Start links, and have them connected in the block."""
    async with AsyncExitStack() as stack:
        for each in links:
            await stack.enter_async_context(each)
        await asyncio.gather(*(each.wait_connected(10) for each in links))
        yield


def link(address: BrokerAddress, client_id: str = "x") -> MqttLink:
    return MqttLink(LinkSettings(address, client_id, backoff_first=0.02, backoff_cap=0.2))


async def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(0.01)
