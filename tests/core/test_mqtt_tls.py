"""The link over TLS: who is trusted, and data that lies decrypted in the library while the socket is silent."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.core.tcp_proxy import Proxy
from tests.recorder import Record

from auricle.errors import BrokerDistrustError, BrokerError
from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle_fleet.broker.process import BrokerProcess

pytestmark = pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed")


def self_signed(folder: Path, name: str, *, days: float = 0.0) -> tuple[Path, Path]:
    """Return certificate and key of a server on 127.0.0.1, its own authority, that hold so many days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_file, key_file


def tls_broker(folder: Path, certificate: Path, key: Path) -> tuple[BrokerProcess, int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    config = folder / "tls.conf"
    config.write_text(
        f"user root\nlog_dest stderr\nlistener {port} 127.0.0.1\nallow_anonymous true\n"
        f"certfile {certificate}\nkeyfile {key}\nmax_packet_size 1048576\n"
    )
    return BrokerProcess([str(find_mosquitto()), "-c", str(config)], folder / "tls.log", " running\n"), port


def during(process: BrokerProcess, case: Callable[[], Awaitable[None]]) -> None:
    """Run a case while the broker runs."""

    async def whole() -> None:
        await process.start()
        await case()
        await process.stop()

    asyncio.run(whole())


def test_round_trip_and_backpressure_over_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, "broker")
    process, port = tls_broker(tmp_path, certificate, key)
    address = BrokerAddress.parse(f"mqtts://127.0.0.1:{port}", ca=certificate)
    sent = [os.urandom(size) for size in (10, 65536, 1, 500_000, 16384, 0) * 10]

    async def case() -> None:
        got: list[bytes] = []
        done = asyncio.Event()

        async def take(message: Delivery) -> None:
            got.append(message.payload)
            if len(got) == len(sent):
                done.set()

        # The smallest high water: reading stops and starts with every message.
        async with (
            MqttLink(LinkSettings(address, "taker", high_water=1), handlers={"t": take}) as taker,
            MqttLink(LinkSettings(address, "giver")) as giver,
        ):
            await taker.wait_connected(10)
            await asyncio.gather(*(giver.publish("t", payload) for payload in sent))
            await asyncio.wait_for(done.wait(), 60)
            assert taker.counters.connections == giver.counters.connections == 1
        assert got == sent

    during(process, case)


def test_nobody_is_trusted_without_being_told_and_a_bad_certificate_is_told_at_once(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, "broker")
    other, _ = self_signed(tmp_path, "other")
    process, port = tls_broker(tmp_path, certificate, key)
    url = f"mqtts://127.0.0.1:{port}"
    distrusted = [
        (BrokerAddress.parse(url), "self-signed"),
        (BrokerAddress.parse(url, ca=other), f"trusts {other} alone"),
        (BrokerAddress.parse(f"mqtts://localhost:{port}", ca=certificate), "another name"),
    ]
    plain = BrokerAddress.parse(f"mqtt://127.0.0.1:{port}")  # plain text to a TLS port

    async def case() -> None:
        for address, why in distrusted:
            async with MqttLink(LinkSettings(address, "c", backoff_first=600)) as link:
                with pytest.raises(BrokerDistrustError, match="not trusted") as told:
                    await asyncio.wait_for(link.wait_connected(600), 60)
                assert why in str(told.value) and link.counters.connections == 0
        async with MqttLink(LinkSettings(plain, "c", backoff_first=0.02)) as link:
            while link.last_error is None:
                await asyncio.sleep(0.01)
            with pytest.raises(BrokerError, match=r"cannot reach|hung up|does not answer"):
                await link.wait_connected(0.3)
            assert link.counters.connections == 0

    during(process, case)


@pytest.mark.reliability(
    "S6", load="a clock ten years early or late, as TLS sees it: told at once, tried again after a wait"
)
@pytest.mark.parametrize(
    ("days", "why"), [(3652.5, "not valid yet by the clock"), (-3652.5, "expired by the clock")], ids=["early", "late"]
)
def test_a_clock_that_is_years_off_is_told_and_not_looped_over(
    days: float, why: str, tmp_path: Path, record_property: Record
) -> None:
    """To a clock that is ten years early a good certificate is one of ten years later."""
    certificate, key = self_signed(tmp_path, "broker", days=days)
    process, port = tls_broker(tmp_path, certificate, key)

    async def case() -> None:
        async with Proxy(port) as proxy:
            address = BrokerAddress.parse(f"mqtts://127.0.0.1:{proxy.port}", ca=certificate)
            async with MqttLink(LinkSettings(address, "c", backoff_first=600)) as link:
                with pytest.raises(BrokerDistrustError, match=why):
                    await asyncio.wait_for(link.wait_connected(600), 60)
            record_property("attempts", proxy.accepted)
            record_property("accepted", link.counters.connections)
            assert proxy.accepted == 1

    during(process, case)


def test_a_link_that_was_distrusted_connects_once_the_certificate_holds(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, "broker")
    other, _ = self_signed(tmp_path, "other")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(other.read_bytes())
    process, port = tls_broker(tmp_path, certificate, key)

    async def case() -> None:
        address = BrokerAddress.parse(f"mqtts://127.0.0.1:{port}", ca=trusted)
        async with MqttLink(LinkSettings(address, "c", backoff_first=0.02, backoff_cap=0.05)) as link:
            with pytest.raises(BrokerDistrustError):
                await link.wait_connected(60)
            trusted.write_bytes(certificate.read_bytes())
            os.utime(trusted, ns=(1, 1))
            while not link.connected:
                await asyncio.sleep(0.01)
            await link.wait_connected(60)

    during(process, case)


def test_packets_that_come_in_one_tls_record_are_all_read(tmp_path: Path) -> None:
    """After the first of them the socket is silent: the rest lies decrypted in the library."""
    certificate, key = self_signed(tmp_path, "server")
    connack, publish = bytes([0x20, 2, 0, 0]), bytes([0x30, 4, 0, 1]) + b"tx"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        writer.write(connack + 3 * publish)
        await reader.read()

    async def case() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        address = BrokerAddress.parse(f"mqtts://127.0.0.1:{port}?protocol=3.1.1", ca=certificate)
        three = asyncio.Event()

        async def take(message: Delivery) -> None:
            if link.counters.messages_received == 3:
                three.set()

        link = MqttLink(LinkSettings(address, "c"))
        link._subscriptions.add("t", take)  # this server answers no SUBSCRIBE
        async with link:
            await asyncio.wait_for(three.wait(), 60)
        server.close()

    asyncio.run(case())
