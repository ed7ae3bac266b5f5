"""A real mosquitto that asks for both: a certificate of ours and the password of the name."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import cast

import pytest

from auricle.errors import BrokerError, SettingsError
from auricle.mqtt_link.link import BrokerAddress, MqttLink
from auricle.mqtt_link.private_link import FOLDER, IdentityFiles
from auricle.packs.pack import load_pack
from auricle.wire.broker_passwords import write_login
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.identity.authority import Authority, key_pem
from auricle_cloud.identity.certificates import new_key
from auricle_cloud.rounds.coordinator import NAME
from auricle_cloud.storage.blobs import Blobs
from auricle_edge.fleet.identity_claim import claim as steps
from auricle_fleet.broker.broker import Broker
from auricle_learning.runtimes import StepRuntime
from tests.cloud.api_server import GENEROUS, serving
from tests.cloud.coordinator_site import DEVICES, Site
from tests.cloud.filled_store import Filled
from tests.system.tls_site import FLEET, NEEDS_MOSQUITTO, TOPICS, TlsSite, connected, hear, link, running, until

pytestmark = [NEEDS_MOSQUITTO, pytest.mark.slow]

NAMES = ("coordinator", "dev-a", "dev-b", "dev-lost")


def keep(address: BrokerAddress, name: str, password: str) -> BrokerAddress:
    """The same certificate, with this name and password in the file beside it."""
    assert address.login is not None
    write_login(address.login, name, password)
    return address


@asynccontextmanager
async def passworded(folder: Path) -> AsyncIterator[tuple[TlsSite, dict[str, BrokerAddress]]]:
    """A broker, and users that have certificate and password."""
    async with running(folder, passwords=True) as site:
        given = site.authority.passwords()
        users = {name: keep(site.of(name), name, given.of(name)) for name in NAMES}
        await site.reload()
        yield site, users


async def connections(address: BrokerAddress, client_id: str) -> int:
    """How often a client got in within a while: 0 is what is wanted of a stranger."""
    async with link(address, client_id) as each:
        with suppress(BrokerError):
            await each.wait_connected(1.0)
        return each.counters.connections


async def test_nobody_gets_in_without_both(tmp_path: Path) -> None:
    async with passworded(tmp_path) as (site, users):
        good, plain = users["dev-a"], dataclasses.replace(users["dev-a"], login=None)
        password = site.authority.passwords().of("dev-a")
        other = Authority.create(tmp_path / "other", "Test")
        strangers = {
            "no password": plain,
            "no password, a name": dataclasses.replace(plain, username="dev-a"),
            "empty password": plain.as_user("dev-a", ""),
            "wrong password": plain.as_user("dev-a", "x" * 43),
            "password of another": plain.as_user("dev-a", site.authority.passwords().of("dev-b")),
            "own password, another name": plain.as_user("coordinator", password),
            "password of another authority": plain.as_user("dev-a", other.passwords().of("dev-a")),
            "name without a password": plain.as_user("nobody-1", site.authority.passwords().of("nobody-1")),
            "no certificate": dataclasses.replace(plain.as_user("dev-a", password), certificate=None, key=None),
        }
        counts = await asyncio.gather(*(connections(each, "x") for each in strangers.values()))
        assert dict(zip(strangers, counts, strict=True)) == dict.fromkeys(strangers, 0)
        assert await connections(good, "dev-a") == 1


async def speak(heads: MqttLink, one: MqttLink, two: MqttLink) -> None:
    """One speaks as the other, and then both as themselves: only that is heard."""
    async with connected(heads, one, two):
        heard = await hear(heads, "d/+/up/#")
        with suppress(BrokerError):
            await one.publish(TOPICS.up("dev-b", "upd"), b"forged")
        await one.publish(TOPICS.up("dev-a", "upd"), b"own")
        await two.publish(TOPICS.up("dev-b", "upd"), b"own")
        await until(lambda: len(heard) == 2)
        assert [each.counters.connections for each in (heads, one, two)] == [1, 1, 1]
    assert sorted(heard) == [f"{TOPICS.up(name, 'upd')} own" for name in ("dev-a", "dev-b")]


async def test_a_device_speaks_for_itself_only_whatever_client_id_it_names(tmp_path: Path) -> None:
    async with passworded(tmp_path) as (_, users):
        await speak(link(users["coordinator"], "coordinator"), link(users["dev-a"]), link(users["dev-b"]))


async def test_whoever_is_revoked_or_has_another_key_is_out_at_the_next_reload(tmp_path: Path) -> None:
    async with passworded(tmp_path) as (site, users):
        lost, kept = link(users["dev-lost"], "dev-lost"), link(users["dev-a"], "dev-a")
        async with connected(lost, kept):
            site.enrolment.revoke("dev-lost", who="test")
            await site.reload()
            await until(lambda: not lost.connected)
            assert "dev-lost" not in (site.place / "passwords").read_text()
            assert await connections(users["dev-lost"], "dev-lost") == 0
            assert (kept.connected, kept.counters.connections) == (True, 1)
            (site.authority.folder / "passwords.key").unlink()
            await site.reload()
            await until(lambda: not kept.connected)
            keep(users["dev-a"], "dev-a", site.authority.passwords().of("dev-a"))
            await until(lambda: kept.connected, 60)


async def test_a_running_broker_is_not_switched_over(tmp_path: Path) -> None:
    async with passworded(tmp_path) as (site, _):
        without = type(site.broker_folder)(
            kind="mosquitto", fleet=FLEET, hosts=["127.0.0.1"], address="127.0.0.1", port=site.port
        )
        with pytest.raises(SettingsError, match="mosquitto"):
            without.write(site.place, site.enrolment, who="test")
        assert (site.place / "passwords").is_file()


async def test_mosquitto_passwd_reads_the_file(tmp_path: Path) -> None:
    program = shutil.which("mosquitto_passwd")
    if program is None:
        pytest.skip("mosquitto_passwd is not installed")
    async with passworded(tmp_path) as (site, _):
        copy = tmp_path / "copy"
        copy.write_bytes((site.place / "passwords").read_bytes())
        lines = copy.read_text().splitlines()
        done = subprocess.run([program, "-D", copy, "dev-b"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert copy.read_text().splitlines() == [line for line in lines if not line.startswith("dev-b:")]


@asynccontextmanager
async def proxied(site: TlsSite) -> AsyncIterator[int]:
    """A proxy that ends TLS: it looks at the clients' certificates and shows the broker its own; its port."""
    own = site.of("proxy-1")
    assert own.certificate is not None
    front = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(own.ca))
    front.load_cert_chain(site.place / "server.pem", site.place / "server.key")
    front.verify_mode = ssl.CERT_REQUIRED
    back = own.tls_context()
    ends: list[asyncio.StreamWriter] = []

    async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, broker = await asyncio.open_connection("127.0.0.1", site.port, ssl=back)
        ends.extend((writer, broker))
        await asyncio.gather(pass_on(reader, broker), pass_on(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=front)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for end in ends:
            end.close()


async def test_behind_a_proxy_that_ends_tls_everybody_is_who_the_password_says(tmp_path: Path) -> None:
    async with passworded(tmp_path) as (site, users), proxied(site) as port:
        head, one, two = (dataclasses.replace(users[name], port=port) for name in NAMES[:3])
        await speak(link(head, "coordinator"), link(one, "dev-a"), link(two, "dev-b"))
        assert await connections(dataclasses.replace(one, login=None), "dev-a") == 0
        assert await connections(dataclasses.replace(one, certificate=None, key=None), "dev-a") == 0


class ClaimSite(TlsSite):
    """Whose users have what they claimed from its API, in their own folders."""

    def address(self, user: str) -> BrokerAddress:
        """The coordinator's certificate is made here, those of devices are claimed."""
        if user == NAME:
            return super().address(user)
        return IdentityFiles(self.folder.parent / user / FOLDER).lend(
            BrokerAddress.parse(f"mqtts://127.0.0.1:{self.port}")
        )

    @contextmanager
    def api(self) -> Iterator[str]:
        key = new_key()
        (self.folder / "server.pem").write_text(self.enrolment.server(["127.0.0.1"], key.public_key(), who="op"))
        (self.folder / "server.key").write_bytes(key_pem(key))
        files = {"certificate": self.folder / "server.pem", "key": self.folder / "server.key"}
        settings = ApiSettings(port=0, rates=GENEROUS, **files)
        filled = Filled(self.folder, self.store, Blobs(self.folder / "blobs"), load_pack("digits"))
        with serving(filled, settings) as server:
            yield server.url


@pytest.mark.timeout(180)
async def test_from_a_claim_over_https_to_a_round(tmp_path: Path) -> None:
    """Tokens made while the broker runs, claims, and a round over a broker that asks for both."""
    async with running(tmp_path / "cloud", ClaimSite, passwords=True) as site:
        keep(site.address(NAME), NAME, site.authority.passwords().of(NAME))
        tokens = site.enrolment.tokens(DEVICES[:3], 3600.0, who="op")
        await site.reload()
        with site.api() as url:
            for device, token, _ in tokens:
                (file := tmp_path / "token").write_text(token)
                await asyncio.to_thread(steps.claim, tmp_path / device, url, site.authority.pin, file, time.time())
        with ThreadPoolExecutor(2) as workers:
            fleet = Site(cast("Broker", site), StepRuntime(load_pack("digits")), tmp_path, workers)
            coordinator = fleet.coordinator(1, quorum=1.0)
            fleet.start_agents(coordinator)
            try:
                await asyncio.wait_for(coordinator.run(), 100)
            finally:
                await fleet.stop_agents()
            assert [(done.state, done.counted) for done in fleet.done] == [("published", 3)]
