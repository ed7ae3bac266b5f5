"""Who gets into a real mosquitto with the generated configuration, and what gets through (RELIABILITY S1 to S4)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from auricle.errors import BrokerError
from auricle.mqtt_link.broker_rights import Roles, covers
from auricle.mqtt_link.link import BrokerAddress, Delivery
from auricle.wire.frames import UP, Topics
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.broker_files import LARGEST_PACKET
from auricle_cloud.identity.certificates import Key, new_key
from auricle_cloud.identity.issuing import DAY
from auricle_cloud.storage.store import FILE, Store
from auricle_fleet.broker.broker import Broker
from auricle_fleet.broker.mosquitto import find_mosquitto
from auricle_fleet.broker.process import BrokerProcess
from tests.system.canary import start_canaries
from tests.system.command_lines import run, serve
from tests.system.tls_site import FLEET, TlsSite, free_port, link, running, until

pytestmark = [
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed"),
    pytest.mark.slow,
]

TOPICS = Topics(FLEET)


def nameless(site: TlsSite, key: Key) -> str:
    """A certificate of the right authority that names nobody."""
    like = site.authority.certify("dev-a", key.public_key(), time.time() + DAY)
    organisation = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "dev-a")])
    builder = x509.CertificateBuilder().subject_name(organisation).issuer_name(like.issuer)
    builder = builder.public_key(key.public_key()).serial_number(1234)
    builder = builder.not_valid_before(like.not_valid_before_utc).not_valid_after(like.not_valid_after_utc)
    return site.authority.chain(builder.sign(site.authority._key, hashes.SHA256()))


@pytest.mark.reliability("S1", load="no certificate, another CA, expired, revoked, plain text, on mosquitto")
def test_strangers_get_no_connack(tmp_path: Path) -> None:
    """S1."""

    async def case() -> None:
        async with running(tmp_path) as site:
            plain = f"127.0.0.1:{site.port}"
            other = Authority.create(tmp_path / "other", "Test")
            key, theirs = new_key(), new_key()
            revoked = site.of("dev-revoked")
            site.enrolment.revoke("dev-revoked", who="test")
            await site.reload()
            foreign = other.chain(other.certify("dev-a", theirs.public_key(), time.time() + DAY))
            server = site.enrolment.server(["127.0.0.1"], key.public_key(), who="test")
            own = x509.CertificateBuilder().subject_name(other.root.subject).issuer_name(other.root.subject)
            own = own.public_key(theirs.public_key()).serial_number(7)
            own = own.not_valid_before(other.root.not_valid_before_utc)
            signed = own.not_valid_after(other.root.not_valid_after_utc).sign(theirs, hashes.SHA256())
            strangers = {
                "no certificate": BrokerAddress.parse(f"mqtts://{plain}", ca=tmp_path / "authority" / "root.pem"),
                "other authority of the same name": site.given("foreign", theirs, foreign),
                "signed by itself": site.given("self", theirs, signed.public_bytes(Encoding.PEM).decode()),
                "expired": site.of("dev-expired", until=-3600.0),
                "revoked": revoked,
                "server's certificate": site.given("server", key, server),
                "no name": site.given("nameless", key, nameless(site, key)),
                "plain text": BrokerAddress.parse(f"mqtt://{plain}"),
                "password": BrokerAddress.parse(f"mqtts://coordinator:x@{plain}", ca=tmp_path / "authority/root.pem"),
            }
            links = {name: link(address, "dev-a") for name, address in strangers.items()}
            await asyncio.gather(*(each.start() for each in links.values()))
            refused = await asyncio.gather(
                *(each.wait_connected(2.0) for each in links.values()), return_exceptions=True
            )
            async with link(site.of("dev-good"), "dev-good") as good:
                await good.wait_connected(10)
            connected = {name: each.counters.connections for name, each in links.items()}
            await asyncio.gather(*(each.stop() for each in links.values()))
            assert all(isinstance(error, BrokerError) for error in refused)
            assert connected == dict.fromkeys(strangers, 0)

    asyncio.run(case())


@pytest.mark.reliability("S2", load="publishing and subscribing as others, `#`, `$share`, `$SYS`")
def test_nothing_is_delivered_outside_of_the_rights(tmp_path: Path) -> None:
    """S2: granted or not, forbidden filters and topics deliver nothing."""

    async def case() -> None:
        async with running(tmp_path) as site:
            delivered: dict[str, list[str]] = {}
            received: list[str] = []

            async def take(message: Delivery) -> None:
                received.append(f"{message.topic} {message.payload.decode()}")

            async with link(site.of("dev-a"), "dev-a") as device, link(site.of("coordinator"), "coordinator") as head:
                await asyncio.gather(device.wait_connected(10), head.wait_connected(10))
                for wanted in (f"{TOPICS.prefix}/d/+/up/#", f"{TOPICS.prefix}/d/+/state", f"{TOPICS.prefix}/c/#"):
                    await head.subscribe(wanted, take)
                canaries = await start_canaries(cast("Broker", cast("Any", site)), FLEET, ["dev-a"], delivered)
                for wanted in ("$SYS/#", f"$share/g/{TOPICS.prefix}/d/+/up/#", f"{TOPICS.prefix}/d/dev-b/dn/#"):
                    with suppress(BrokerError):
                        await device.subscribe(wanted, take)
                for topic in (TOPICS.up("dev-b", "upd"), TOPICS.down("dev-a", "cmd"), TOPICS.model):
                    with suppress(BrokerError):
                        await device.publish(topic, b"forged by dev-a", retain=True)
                await head.publish(TOPICS.down("dev-b", "cmd"), b"for dev-b")
                await head.publish(TOPICS.model, b"manifest", retain=True)
                await device.publish(TOPICS.up("dev-a", "upd"), b"own")
                await until(lambda: {f"{TOPICS.up('dev-a', 'upd')} own", f"{TOPICS.model} manifest"} <= set(received))
                await until(lambda: TOPICS.model in delivered["observer"])
                await asyncio.gather(*(canary.stop() for canary in canaries))
            roles = Roles(FLEET)
            for user, topics in delivered.items():
                assert all(any(covers(allowed, topic) for allowed in roles.of(user).read) for topic in topics), user
            assert not [line for line in received if "forged" in line or "dev-b" in line]

    asyncio.run(case())


@pytest.mark.reliability("S3", load="another certificate, the victim's client id")
def test_another_certificate_does_not_take_over_a_session(tmp_path: Path) -> None:
    """S3: whatever client id it names, it is who its certificate says."""

    async def case() -> None:
        async with running(tmp_path) as site:
            stolen: list[str] = []
            got: list[str] = []

            async def steal(message: Delivery) -> None:
                stolen.append(message.topic)

            async def take(message: Delivery) -> None:
                got.append(message.topic)

            victim, thief = link(site.of("dev-a"), "dev-a"), link(site.of("dev-b"), "dev-a")
            async with victim, link(site.of("coordinator"), "coordinator") as head:
                await asyncio.gather(victim.wait_connected(10), head.wait_connected(10))
                await victim.subscribe(f"{TOPICS.prefix}/d/dev-a/dn/#", take)
                async with thief:
                    await thief.wait_connected(10)
                    with suppress(BrokerError):
                        await thief.subscribe(f"{TOPICS.prefix}/d/dev-a/dn/#", steal)
                    await head.publish(TOPICS.down("dev-a", "cmd"), b"for dev-a")
                    await until(lambda: len(got) == 1)
                    assert victim.connected
                    assert victim.counters.connections == 1
                assert stolen == []

    asyncio.run(case())


@pytest.mark.reliability("S4", load="retained messages on the coordinator's topics")
def test_retained_topics_of_the_coordinator_cannot_be_poisoned(tmp_path: Path) -> None:
    """S4: neither another manifest nor an empty one takes the place of the retained one."""

    async def case() -> None:
        async with running(tmp_path) as site:
            seen: list[bytes] = []

            async def take(message: Delivery) -> None:
                seen.append(message.payload)

            async with link(site.of("coordinator"), "coordinator") as head, link(site.of("dev-a"), "dev-a") as device:
                await asyncio.gather(head.wait_connected(10), device.wait_connected(10))
                await head.publish(TOPICS.model, b"manifest", retain=True)
                for payload in (b"", b"poison"):
                    for topic in (TOPICS.model, TOPICS.coordinator_state, TOPICS.down("dev-b", "cmd")):
                        with suppress(BrokerError):
                            await device.publish(topic, payload, retain=True)
                async with link(site.of("dev-b"), "dev-b") as fresh:
                    await fresh.wait_connected(10)
                    await fresh.subscribe(f"{TOPICS.prefix}/c/#", take)
                    await fresh.subscribe(f"{TOPICS.prefix}/d/dev-b/dn/#", take)
                    await head.publish(TOPICS.down("dev-b", "inv"), b"last")
                    await until(lambda: b"last" in seen)
            assert seen == [b"manifest", b"last"]

    asyncio.run(case())


@pytest.mark.reliability("S4", load="retained messages below `up/`")
def test_a_certificate_cannot_fill_the_broker(tmp_path: Path) -> None:
    """S4: what one device has the broker keep is its state and seven messages, of a frame's size each."""

    async def case() -> None:
        async with running(tmp_path) as site:
            seen: dict[str, int] = {}

            async def take(message: Delivery) -> None:
                seen[message.topic] = len(message.payload)

            large = bytes(LARGEST_PACKET - 256)
            async with link(site.of("dev-a"), "dev-a") as device:
                await device.wait_connected(10)
                junk = [f"{TOPICS.prefix}/d/dev-a/{rest}" for rest in ("up", "up/x", "up/upd/x", "state/x", "up/upd/")]
                more = [TOPICS.up("dev-a", f"upd{number}") for number in range(40)]
                own = [TOPICS.up("dev-a", kind) for kind in UP] + [TOPICS.device_state("dev-a")]
                for topic in (*junk, *more, *own):
                    with suppress(BrokerError):
                        await device.publish(topic, large, retain=True)
                with pytest.raises(BrokerError, match="above the broker's maximum"):
                    await device.publish(own[0], bytes(LARGEST_PACKET), retain=True)
            async with link(site.of("coordinator"), "coordinator") as head:
                await head.wait_connected(10)
                await head.publish(TOPICS.model, b"last", retain=True)
                for wanted in ("d/+/up/#", "d/+/state", "c/#"):
                    await head.subscribe(f"{TOPICS.prefix}/{wanted}", take)
                await until(lambda: TOPICS.model in seen)
            assert sorted(seen) == sorted([*own, TOPICS.model])
            assert sum(seen.values()) < len(own) * LARGEST_PACKET

    asyncio.run(case())


def test_a_device_that_is_revoked_while_connected_is_not_heard_any_more(tmp_path: Path) -> None:
    async def case() -> None:
        async with running(tmp_path) as site:
            heard: list[str] = []

            async def take(message: Delivery) -> None:
                heard.append(message.payload.decode())

            lost = site.of("dev-lost")
            async with link(site.of("coordinator"), "coordinator") as head, link(lost, "dev-lost") as device:
                await asyncio.gather(head.wait_connected(10), device.wait_connected(10))
                await head.subscribe(f"{TOPICS.prefix}/d/+/up/#", take)
                await device.publish(TOPICS.up("dev-lost", "upd"), b"before")
                await until(lambda: heard == ["before"])
                site.enrolment.revoke("dev-lost", who="test")
                await site.reload()
                with suppress(BrokerError, asyncio.TimeoutError):
                    await asyncio.wait_for(device.publish(TOPICS.up("dev-lost", "upd"), b"after"), 5)
                async with link(site.of("dev-good"), "dev-good") as good:
                    await good.wait_connected(10)
                    await good.publish(TOPICS.up("dev-good", "upd"), b"good")
                    await until(lambda: "good" in heard)
                again = link(lost, "dev-lost")
                await again.start()
                with pytest.raises(BrokerError):
                    await again.wait_connected(1.0)
                await again.stop()
                assert again.counters.connections == 0
            assert heard == ["before", "good"]

    asyncio.run(case())


def auricle(*words: object) -> list[str]:
    return [sys.executable, "-m", "auricle", *map(str, words)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("besides", ["--no-passwords", "--passwords"])
def test_a_device_goes_from_a_token_to_the_list_of_devices(tmp_path: Path, besides: str) -> None:
    """The commands as an operator and a board give them: nothing but certificates, or both, opens a door."""

    def answer(*words: object) -> Any:
        done = subprocess.run(auricle(*words, "--json"), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    async def case() -> None:
        state, device, port = ("--state", tmp_path / "cloud"), tmp_path / "device", free_port()
        here, folder = ("--host", "127.0.0.1"), tmp_path / "broker"
        made = answer("cloud", "enrol", "init", *state)
        answer("cloud", "enrol", "server", *state, *here, "--out", tmp_path)
        where = ("--fleet", FLEET, "--listen", "127.0.0.1", "--port", port, "--out", folder)
        answer("cloud", "enrol", "broker", *state, *here, *where, besides)
        answer("cloud", "enrol", "token", *state, "--device", "kitchen-1", "--out", tmp_path, "--broker", folder)
        command = [str(find_mosquitto()), "-c", str(folder / "mosquitto.conf")]
        broker = BrokerProcess(command, tmp_path / "broker.log", sign=" running\n")
        await broker.start()
        url, files = f"mqtts://127.0.0.1:{port}", ("--certificate", tmp_path / "server.pem")
        coordinator = auricle(
            *serve(broker=url, fleet=FLEET, pack="digits", listen="127.0.0.1:0", key=tmp_path / "server.key"),
            *state,
            *files,
        )
        cloud = subprocess.Popen(coordinator, stdout=subprocess.PIPE, text=True)
        edge: subprocess.Popen[str] | None = None
        try:
            assert cloud.stdout is not None
            said = json.loads(await asyncio.wait_for(asyncio.to_thread(cloud.stdout.readline), 120))
            token = ("--token-file", tmp_path / "kitchen-1.token")
            claimed = answer(
                "edge", "claim", "--server", said["page"], *token, "--ca-pin", made["pin"], "--state", device
            )
            os.mkfifo(tmp_path / "sound")
            device_line = auricle(
                *run(
                    device="kitchen-1",
                    state=device,
                    fleet=FLEET,
                    broker=url,
                    coordinator=said["coordinator"],
                    pack="digits",
                    source=f"fifo:{tmp_path / 'sound'}",
                    json=None,
                )
            )
            edge = subprocess.Popen(device_line, stdout=subprocess.DEVNULL, text=True)
            store = Store(tmp_path / "cloud" / FILE, must_exist=True)
            await until(lambda: [row.device for row in store.devices.all()] == ["kitchen-1"], 120)
            store.close()
        finally:
            for process in (edge, cloud):
                if process is not None:
                    process.terminate()
                    await asyncio.to_thread(process.wait, 60)
            await broker.stop()
        assert (claimed["device"], claimed["token_erased"]) == ("kitchen-1", True)

    asyncio.run(case())
