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
from auricle.mqtt_link.link import BrokerAddress
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.wire.frames import UP
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.broker_files import LARGEST_PACKET
from auricle_cloud.identity.certificates import Key, new_key
from auricle_cloud.identity.issuing import DAY_SECONDS
from auricle_cloud.storage.store import FILE, Store
from auricle_fleet.broker.broker import Broker
from auricle_fleet.broker.process import BrokerProcess
from tests.nightly import nightly_but
from tests.recorder import Record
from tests.system.canary import start_canaries
from tests.system.command_lines import run, serve
from tests.system.tls_site import (
    FLEET,
    NEEDS_MOSQUITTO,
    TOPICS,
    TlsSite,
    connected,
    free_port,
    hear,
    link,
    running,
    until,
)

pytestmark = [NEEDS_MOSQUITTO, pytest.mark.slow]


def nameless(site: TlsSite, key: Key) -> str:
    """A certificate of the right authority that names nobody."""
    like = site.authority.certify("dev-a", key.public_key(), time.time() + DAY_SECONDS)
    organisation = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "dev-a")])
    builder = x509.CertificateBuilder().subject_name(organisation).issuer_name(like.issuer)
    builder = builder.public_key(key.public_key()).serial_number(1234)
    builder = builder.not_valid_before(like.not_valid_before_utc).not_valid_after(like.not_valid_after_utc)
    return site.authority.chain(builder.sign(site.authority._key, hashes.SHA256()))


def of_its_own(authority: Authority, key: Key) -> str:
    """A certificate with the names of an authority that is signed by its own key."""
    root = authority.root
    own = x509.CertificateBuilder().subject_name(root.subject).issuer_name(root.subject).public_key(key.public_key())
    own = own.serial_number(7).not_valid_before(root.not_valid_before_utc).not_valid_after(root.not_valid_after_utc)
    return own.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


@pytest.mark.reliability("S1", load="no certificate, another CA, expired, revoked, plain text, on mosquitto")
async def test_strangers_get_no_connack(tmp_path: Path, record_property: Record) -> None:
    async with running(tmp_path) as site:
        plain, root = f"127.0.0.1:{site.port}", tmp_path / "authority" / "root.pem"
        other = Authority.create(tmp_path / "other", "Test")
        key, theirs = new_key(), new_key()
        revoked = site.of("dev-revoked")
        site.enrolment.revoke("dev-revoked", who="test")
        await site.reload()
        foreign = other.chain(other.certify("dev-a", theirs.public_key(), time.time() + DAY_SECONDS))
        server = site.enrolment.server(["127.0.0.1"], key.public_key(), who="test")
        strangers = {
            "no certificate": BrokerAddress.parse(f"mqtts://{plain}", ca=root),
            "other authority of the same name": site.given("foreign", theirs, foreign),
            "signed by itself": site.given("self", theirs, of_its_own(other, theirs)),
            "expired": site.of("dev-expired", until=-3600.0),
            "revoked": revoked,
            "server's certificate": site.given("server", key, server),
            "no name": site.given("nameless", key, nameless(site, key)),
            "plain text": BrokerAddress.parse(f"mqtt://{plain}"),
            "password": BrokerAddress.parse(f"mqtts://coordinator:x@{plain}", ca=root),
        }
        links = {name: link(address, "dev-a") for name, address in strangers.items()}
        await asyncio.gather(*(each.start() for each in links.values()))
        refused = await asyncio.gather(*(each.wait_connected(2.0) for each in links.values()), return_exceptions=True)
        async with connected(link(site.of("dev-good"), "dev-good")):
            counts = {name: each.counters.connections for name, each in links.items()}
        await asyncio.gather(*(each.stop() for each in links.values()))
        record_property("tried", len(counts))
        record_property("accepted", sum(counts.values()))
        assert all(isinstance(error, BrokerError) for error in refused)
        assert counts == dict.fromkeys(strangers, 0)


@pytest.mark.reliability("S2", load="publishing and subscribing as others, `#`, `$share`, `$SYS`")
async def test_nothing_is_delivered_outside_of_the_rights(tmp_path: Path, record_property: Record) -> None:
    """Granted or not, forbidden filters and topics deliver nothing."""
    async with running(tmp_path) as site:
        delivered: dict[str, list[str]] = {}
        device, head = link(site.of("dev-a"), "dev-a"), link(site.of("coordinator"), "coordinator")
        async with connected(device, head):
            received = await hear(head, "d/+/up/#", "d/+/state", "c/#")
            canaries = await start_canaries(cast("Broker", cast("Any", site)), FLEET, ["dev-a"], delivered)
            outside = await hear(device, "$SYS/#", f"$share/g/{TOPICS.prefix}/d/+/up/#", "d/dev-b/dn/#")
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
        strange = [
            (user, topic)
            for user, topics in delivered.items()
            for topic in topics
            if not any(covers(allowed, topic) for allowed in roles.of(user).read)
        ]
        forged = [line for line in (*received, *outside) if "forged" in line or "dev-b" in line]
        record_property("delivered inside", len(received) + sum(map(len, delivered.values())))
        record_property("delivered outside", len(strange) + len(forged))
        assert (strange, forged) == ([], [])


@pytest.mark.reliability("S3", load="another certificate, the victim's client id")
async def test_another_certificate_does_not_take_over_a_session(tmp_path: Path, record_property: Record) -> None:
    """Whatever client id it names, it is who its certificate says."""
    async with running(tmp_path) as site:
        victim, thief = link(site.of("dev-a"), "dev-a"), link(site.of("dev-b"), "dev-a")
        head = link(site.of("coordinator"), "coordinator")
        async with connected(victim, head):
            got = await hear(victim, "d/dev-a/dn/#")
            async with connected(thief):
                stolen = await hear(thief, "d/dev-a/dn/#")
                await head.publish(TOPICS.down("dev-a", "cmd"), b"for dev-a")
                await until(lambda: len(got) == 1)
                record_property("connections of the victim", victim.counters.connections)
                record_property("stolen messages", len(stolen))
                assert (victim.connected, victim.counters.connections) == (True, 1)
            assert stolen == []


@pytest.mark.reliability("S4", load="retained messages on the coordinator's topics")
async def test_retained_topics_of_the_coordinator_cannot_be_poisoned(tmp_path: Path, record_property: Record) -> None:
    """Neither another manifest nor an empty one takes the place of the retained one."""
    async with running(tmp_path) as site:
        head, device = link(site.of("coordinator"), "coordinator"), link(site.of("dev-a"), "dev-a")
        async with connected(head, device):
            await head.publish(TOPICS.model, b"manifest", retain=True)
            for payload in (b"", b"poison"):
                for topic in (TOPICS.model, TOPICS.coordinator_state, TOPICS.down("dev-b", "cmd")):
                    with suppress(BrokerError):
                        await device.publish(topic, payload, retain=True)
            fresh = link(site.of("dev-b"), "dev-b")
            async with connected(fresh):
                seen = await hear(fresh, "c/#", "d/dev-b/dn/#")
                await head.publish(TOPICS.down("dev-b", "inv"), b"last")
                await until(lambda: f"{TOPICS.down('dev-b', 'inv')} last" in seen)
        heard = [line.partition(" ")[2] for line in seen]
        record_property("poisoned", len(heard) - heard.count("manifest") - heard.count("last"))
        assert heard == ["manifest", "last"]


@pytest.mark.reliability("S4", load="retained messages below `up/`")
async def test_a_certificate_cannot_fill_the_broker(tmp_path: Path, record_property: Record) -> None:
    """What one device has the broker keep is its state and seven messages, of a frame's size each."""
    async with running(tmp_path) as site:
        large = bytes(LARGEST_PACKET - 256)
        device, head = link(site.of("dev-a"), "dev-a"), link(site.of("coordinator"), "coordinator")
        async with connected(device):
            junk = [f"{TOPICS.prefix}/d/dev-a/{rest}" for rest in ("up", "up/x", "up/upd/x", "state/x", "up/upd/")]
            more = [TOPICS.up("dev-a", f"upd{number}") for number in range(40)]
            own = [TOPICS.up("dev-a", kind) for kind in UP] + [TOPICS.device_state("dev-a")]
            for topic in (*junk, *more, *own):
                with suppress(BrokerError):
                    await device.publish(topic, large, retain=True)
            with pytest.raises(BrokerError, match="maximum"):
                await device.publish(own[0], bytes(LARGEST_PACKET), retain=True)
        async with connected(head):
            await head.publish(TOPICS.model, b"last", retain=True)
            seen = await hear(head, "d/+/up/#", "d/+/state", "c/#")
            await until(lambda: f"{TOPICS.model} last" in seen)
        sizes = {topic: len(payload) for topic, _, payload in (line.partition(" ") for line in seen)}
        record_property("tried", len(junk) + len(more) + len(own))
        record_property("poisoned", len(set(sizes) - {*own, TOPICS.model}))
        record_property("bytes kept", sum(sizes.values()))
        assert sorted(sizes) == sorted([*own, TOPICS.model])
        assert sum(sizes.values()) < len(own) * LARGEST_PACKET


async def test_a_device_that_is_revoked_while_connected_is_not_heard_any_more(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        lost, upd = site.of("dev-lost"), TOPICS.up("dev-lost", "upd")
        head, device, good = link(site.of("coordinator"), "coordinator"), link(lost), link(site.of("dev-good"), "good")
        async with connected(head, device):
            heard = await hear(head, "d/+/up/#")
            await device.publish(upd, b"before")
            await until(lambda: heard == [f"{upd} before"])
            site.enrolment.revoke("dev-lost", who="test")
            await site.reload()
            with suppress(BrokerError, asyncio.TimeoutError):
                await asyncio.wait_for(device.publish(upd, b"after"), 5)
            async with connected(good):
                await good.publish(TOPICS.up("dev-good", "upd"), b"good")
                await until(lambda: len(heard) > 1)
            again = link(lost)
            await again.start()
            with pytest.raises(BrokerError):
                await again.wait_connected(1.0)
            await again.stop()
            assert again.counters.connections == 0
        assert heard == [f"{upd} before", f"{TOPICS.up('dev-good', 'upd')} good"]


def auricle(*words: object) -> list[str]:
    return [sys.executable, "-m", "auricle", *map(str, words)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("besides", nightly_but(["--no-passwords", "--passwords"], ["--no-passwords"]))
async def test_a_device_goes_from_a_token_to_the_list_of_devices(tmp_path: Path, besides: str) -> None:
    """The commands as an operator and a board give them: nothing but certificates, or both, opens a door."""

    def answer(*words: object) -> Any:
        done = subprocess.run(auricle(*words, "--json"), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

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
    line = serve(broker=url, fleet=FLEET, pack="digits", listen="127.0.0.1:0", key=tmp_path / "server.key")
    cloud = subprocess.Popen(auricle(*line, *state, *files), stdout=subprocess.PIPE, text=True)
    edge: subprocess.Popen[str] | None = None
    try:
        assert cloud.stdout is not None
        said = json.loads(await asyncio.wait_for(asyncio.to_thread(cloud.stdout.readline), 120))
        token = ("--token-file", tmp_path / "kitchen-1.token")
        pin = ("--ca-pin", made["pin"], "--state", device)
        claimed = answer("edge", "claim", "--server", said["page"], *token, *pin)
        os.mkfifo(tmp_path / "sound")
        told = {"fleet": FLEET, "broker": url, "coordinator": said["coordinator"], "pack": "digits"}
        line = run(device="kitchen-1", state=device, source=f"fifo:{tmp_path / 'sound'}", json=None, **told)
        edge = subprocess.Popen(auricle(*line), stdout=subprocess.DEVNULL, text=True)
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
