"""Addresses, sizes and filters: the parts of the link that need no broker."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorder import Record

from auricle.errors import SettingsError
from auricle.mqtt_link.inbound import Inbox
from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings
from auricle.mqtt_link.outbound import packet_size
from auricle.mqtt_link.reconnection import Backoff, within
from auricle.mqtt_link.settings import Counters
from auricle.mqtt_link.subscriptions import matches

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (
            "mqtts://dev-1:p%40ss%2F@broker.example:8884?protocol=3.1.1",
            BrokerAddress("broker.example", 8884, "dev-1", "p@ss/", tls=True, protocol="3.1.1"),
        ),
        ("mqtt://h", BrokerAddress("h", 1883)),
        ("mqtts://h", BrokerAddress("h", 8883, tls=True)),
        ("h:99", BrokerAddress("h", 99)),
    ],
)
def test_url_names_every_part(url: str, address: BrokerAddress) -> None:
    assert BrokerAddress.parse(url) == address


@given(NAMES, NAMES, st.integers(1, 65535), st.booleans(), st.sampled_from(["5", "3.1.1"]))
@pytest.mark.slow
def test_url_comes_back(user: str, password: str, port: int, tls: bool, protocol: str) -> None:
    address = BrokerAddress("::1", port, user, password, tls, protocol=protocol)  # type: ignore[arg-type]
    assert BrokerAddress.parse(address.url) == address


def test_password_is_in_no_message() -> None:
    address = BrokerAddress.parse("mqtt://user:secret@h")
    assert "secret" not in f"{address} {address!r} {LinkSettings(address, 'user')!r}"


@pytest.mark.parametrize("url", ["http://h", "mqtt://", "mqtt://h:99999", "mqtt://h?protocol=4"])
def test_bad_urls_are_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        BrokerAddress.parse(url)


def test_missing_certificate_is_named(tmp_path) -> None:
    missing = tmp_path / "ca.pem"
    with pytest.raises(SettingsError, match=r"ca\.pem"):
        BrokerAddress.parse("mqtts://h", ca=missing).tls_context()


def test_settings_that_would_stand_still_are_refused() -> None:
    with pytest.raises(SettingsError, match="max_unacknowledged"):
        LinkSettings(BrokerAddress("h"), "c", max_unacknowledged=0)


@pytest.mark.parametrize(
    ("payload", "protocol", "expiry", "size"),
    [
        # 1 type + 1 length + 2+3 topic + 2 id + 1 properties + payload
        (10, "5", False, 20),
        (10, "5", True, 25),
        (10, "3.1.1", False, 19),
        # the rest of 127 bytes still fits one length byte, of 128 takes two; 16384 takes three
        (119, "5", False, 1 + 1 + 127),
        (120, "5", False, 1 + 2 + 128),
        (16384 - 8, "5", False, 1 + 3 + 16384),
    ],
)
def test_packet_size_by_hand(payload: int, protocol: str, expiry: bool, size: int) -> None:
    assert packet_size("a/b", bytes(payload), qos=1, protocol=protocol, expiry=expiry) == size


@pytest.mark.parametrize(
    ("topic_filter", "topic", "match"),
    [
        ("a/+/c", "a/b/c", True),
        ("a/#", "a", True),
        ("a/#", "b/a", False),
        ("$share/co/a/#", "a/b", True),
        ("$share/co/a/#", "co/a", False),
    ],
)
def test_filters(topic_filter: str, topic: str, match: bool) -> None:
    assert matches(topic_filter, topic) is match


@pytest.mark.reliability("S7", load="the waits of a link: drawn at random, they grow up to a cap")
def test_backoff_doubles_to_its_cap_and_starts_over_after_a_stable_connection(
    monkeypatch, record_property: Record
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    backoff = Backoff(0.5, 60.0)
    waits = [backoff.wait(0.0) for _ in range(9)]
    record_property("waits s", str(waits))
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff.wait(lived=11.0) == 0.5
    assert backoff.wait(lived=9.0) == 1


def test_inbox_leaves_out_what_follows_the_first_message_it_left_out() -> None:
    async def case() -> None:
        async def handle(message: Delivery) -> None:
            handled.append(message.mid)

        handled: list[int] = []
        counters = Counters()
        inbox = Inbox(1, handle, lambda message: None, lambda: None, counters)
        worker = asyncio.create_task(inbox.run())
        for mid in range(10):  # the first is in hand; high water 1, hard limit 8
            inbox.put(Delivery("t", b"", 1, False, False, mid, generation=1))
        while inbox.full:
            await asyncio.sleep(0)
        inbox.put(Delivery("t", b"", 1, False, False, 10, generation=1))
        assert inbox.wants_redelivery(1)
        inbox.put(Delivery("t", b"", 1, False, False, 11, generation=2))
        while inbox.full:
            await asyncio.sleep(0)
        await inbox.close(5)
        await worker
        assert handled == [*range(9), 11]
        assert counters.overflowed == 2

    asyncio.run(case())


@pytest.mark.parametrize("error", [None, ValueError()])
def test_a_cancellation_that_comes_with_the_result_is_not_swallowed(error: Exception | None) -> None:
    async def case() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = asyncio.create_task(within(future, 5))
        await asyncio.sleep(0)
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    asyncio.run(case())


def test_what_takes_too_long_is_cancelled() -> None:
    async def case() -> None:
        endless = asyncio.create_task(asyncio.Event().wait())
        with pytest.raises(asyncio.TimeoutError):
            await within(endless, 0.01)
        with pytest.raises(asyncio.CancelledError):
            await endless

    asyncio.run(case())
