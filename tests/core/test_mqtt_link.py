"""The link against real brokers: what must arrive arrives, whatever happens to the connection or the handler."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from tests.core.tcp_proxy import Proxy
from tests.recorder import Record

from auricle.errors import BrokerDistrustError, BrokerError
from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink, Will
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle_fleet.broker import mosquitto as broker_mosquitto
from auricle_fleet.broker.broker import Broker, Kind, start_broker

T = "auricle/1/f"
UP, UPS = f"{T}/d/dev-a/up/upd", f"{T}/d/+/up/#"
USERS = {"coordinator": "c-secret", "dev-a": "a-secret", "dev-b": "b-secret"}
KINDS: list[Kind] = ["mosquitto", "amqtt"]


def available(kind: Kind) -> Kind:
    if kind == "mosquitto" and find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    if kind == "amqtt" and find_spec("amqtt") is None:
        pytest.skip("amqtt is not installed")
    return kind


Case = Callable[..., Awaitable[None]]
"""What is done with a running broker; it may take `record_property` after it."""
Test = Callable[[Path, Kind, Record], None]


def run(case: Case, folder: Path, kind: Kind, *, persistence: bool = True) -> None:
    async def whole() -> None:
        async with await start_broker(folder, USERS, fleet="f", kind=kind, persistence=persistence) as broker:
            await asyncio.wait_for(case(broker), 30)

    asyncio.run(whole())


def on(*kinds: Kind, persistence: bool = True) -> Callable[[Case], Test]:
    """A test of a running broker, once for each kind."""

    def made(case: Case) -> Test:
        def test(tmp_path: Path, kind: Kind, record_property: Record) -> None:
            told = {"record_property": record_property} if "record_property" in signature(case).parameters else {}
            run(partial(case, **told), tmp_path, available(kind), persistence=persistence)

        test.__doc__ = case.__doc__
        return pytest.mark.parametrize("kind", kinds)(test)

    return made


def settings(broker: Broker, user: str, **changes: object) -> LinkSettings:
    values = {"backoff_first": 0.05, "backoff_cap": 0.2, **changes}
    return LinkSettings(broker.address(user), user, **values)  # type: ignore[arg-type]


@asynccontextmanager
async def link(broker: Broker, user: str, **changes: object) -> AsyncIterator[MqttLink]:
    async with MqttLink(settings(broker, user, **changes)) as made:
        await made.wait_connected(10)
        yield made


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for something that makes no event of its own."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(0.005)


class Inbound:
    """A handler that remembers, and can be told to fail or to wait."""

    def __init__(self) -> None:
        self.messages: list[Delivery] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures = 0

    async def __call__(self, message: Delivery) -> None:
        self.messages.append(message)
        if self.failures:
            self.failures -= 1
            raise ValueError("a handler that fails")
        await self.gate.wait()

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]

    async def count(self, number: int, seconds: float = 10.0) -> None:
        await until(lambda: len(self.messages) >= number, seconds)


@asynccontextmanager
async def severable(broker: Broker, user: str, **changes: object) -> AsyncIterator[tuple[MqttLink, Proxy]]:
    async with Proxy(broker.port) as proxy:
        port, broker.port = broker.port, proxy.port
        made = MqttLink(settings(broker, user, **changes))
        broker.port = port
        async with made:
            await made.wait_connected(10)
            yield made, proxy


@asynccontextmanager
async def heard(broker: Broker) -> AsyncIterator[tuple[Inbound, MqttLink, MqttLink]]:
    """What a coordinator hears of devices, its link, and that of a device."""
    inbound = Inbound()
    async with link(broker, "coordinator") as coordinator, link(broker, "dev-a") as device:
        await coordinator.subscribe(UPS, inbound)
        yield inbound, coordinator, device


async def answered(broker: Broker, count: int, qos: int, high_water: int) -> int:
    """Messages that a coordinator answers from its handler, all of them; how many of them it first left out."""
    acks = Inbound()
    async with link(broker, "coordinator", high_water=high_water) as coordinator, link(broker, "dev-a") as device:

        async def answer(message: Delivery) -> None:
            await coordinator.publish(f"{T}/d/dev-a/dn/ack", message.payload)

        await coordinator.subscribe(UPS, answer)
        await device.subscribe(f"{T}/d/dev-a/dn/#", acks)
        await asyncio.gather(*(device.publish(UP, b"%d" % i, qos=qos) for i in range(count)))
        await until(lambda: {int(payload) for payload in acks.payloads} == set(range(count)))
        return coordinator.counters.overflowed


@on(*KINDS)
@pytest.mark.slow
async def test_64_kb_at_qos_1_arrive_whole_and_in_order(broker: Broker) -> None:
    sent = [os.urandom(65536) for _ in range(50)]
    async with heard(broker) as (inbound, coordinator, device):
        await asyncio.gather(*(device.publish(UP, payload) for payload in sent))
        await inbound.count(50)
        assert device.counters.bytes_sent > 50 * 65536
        assert coordinator.counters.bytes_received > 50 * 65536
    assert inbound.payloads == sent


@on(*KINDS)
@pytest.mark.slow
async def test_wrong_password_never_connects(broker: Broker) -> None:
    wrong = LinkSettings(broker.address("dev-a").as_user("dev-a", "b-secret"), "dev-a", backoff_first=0.05)
    async with MqttLink(wrong) as thief:
        await until(lambda: thief.last_error is not None)
        with pytest.raises(BrokerError, match=r"refuses dev-a|hung up"):
            await thief.wait_connected(0.3)
        assert thief.counters.connections == 0


def test_a_refused_password_is_told_at_once_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def case(broker: Broker) -> None:
        wrong = LinkSettings(broker.address("dev-a").as_user("dev-a", "b-secret"), "dev-a", backoff_first=0.05)
        async with MqttLink(wrong) as thief:
            with pytest.raises(BrokerDistrustError, match=r"refuses dev-a: .*, look at its name and password\.$"):
                await thief.wait_connected(600)
            await until(lambda: caplog.text.count("refuses dev-a") > 2)

    caplog.set_level("DEBUG", "auricle.mqtt")
    run(case, tmp_path, available("mosquitto"))


@on(*KINDS, persistence=False)
@pytest.mark.slow
async def test_unacknowledged_publishes_survive_the_brokers_death(broker: Broker) -> None:
    """Retained, so that it does not matter which of the two links is back first."""
    inbound = Inbound()
    topics = {f"{T}/c/{i}" for i in range(25)}
    async with link(broker, "coordinator") as coordinator, link(broker, "dev-a") as device:
        await device.subscribe(f"{T}/c/#", inbound)
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        pending = [asyncio.create_task(coordinator.publish(topic, b"x", retain=True)) for topic in topics]
        await until(lambda: coordinator.counters.messages_sent == 10)  # the others wait: 10 unacknowledged at most
        broker.kill()
        await until(lambda: not coordinator.connected and not device.connected)
        await broker.restart()
        await asyncio.gather(*pending)
        await until(lambda: {message.topic for message in inbound.messages} == topics)
        assert coordinator.counters.connections == device.counters.connections == 2


@pytest.mark.reliability("F2", load="one link, 10 kills")
@on("mosquitto", persistence=False)
@pytest.mark.slow
async def test_session_and_subscriptions_come_back_within_seconds_ten_times(
    broker: Broker, record_property: Record
) -> None:
    waited = []
    async with heard(broker) as (inbound, coordinator, device):
        for i in range(10):
            broker.kill()
            await until(lambda: not coordinator.connected and not device.connected)
            await broker.restart()
            began = time.monotonic()
            await coordinator.wait_connected(10)
            await device.publish(UP, b"%d" % i)
            await inbound.count(i + 1)
            waited.append(time.monotonic() - began)
    record_property("kills", len(waited))
    record_property("back s", round(max(waited), 2))
    assert inbound.payloads == [b"%d" % i for i in range(10)]


@on(*KINDS)
async def test_a_failing_handler_is_counted_and_the_link_lives(broker: Broker) -> None:
    async with heard(broker) as (inbound, coordinator, device):
        inbound.failures = 2
        for payload in (b"1", b"2", b"3"):
            await device.publish(UP, payload)
        await inbound.count(3)
        assert coordinator.counters.handler_errors == 2
        assert coordinator.counters.connections == 1
    assert inbound.payloads == [b"1", b"2", b"3"]


@on("mosquitto")
async def test_a_message_whose_handler_outlived_the_connection_comes_again(broker: Broker) -> None:
    inbound = Inbound()
    inbound.gate.clear()
    async with severable(broker, "coordinator") as (coordinator, proxy), link(broker, "dev-a") as device:
        await coordinator.subscribe(UPS, inbound)
        await device.publish(UP, b"1")
        await inbound.count(1)
        proxy.sever()
        await until(lambda: coordinator.counters.connections == 2)
        inbound.gate.set()  # its acknowledgement would be for a connection that is gone
        await inbound.count(2)
        await device.publish(UP, b"2")
        await inbound.count(3)
        await coordinator.publish(f"{T}/c/x", b"")  # answered after our acknowledgement of "2" has been read
        proxy.sever()
        await until(lambda: coordinator.counters.connections == 3)
        await device.publish(UP, b"3")
        await inbound.count(4)
    assert inbound.payloads == [b"1", b"1", b"2", b"3"]
    assert inbound.messages[1].duplicate


@on("mosquitto")
async def test_a_late_handler_does_not_acknowledge_the_next_delivery(broker: Broker) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    calls: list[bytes] = []
    again = Inbound()

    async def handle(message: Delivery) -> None:
        calls.append(message.payload)
        await gates[len(calls) - 1].wait()

    async with severable(broker, "coordinator") as (coordinator, proxy), link(broker, "dev-a") as device:
        await coordinator.subscribe(UPS, handle)
        await device.publish(UP, b"1")
        await until(lambda: len(calls) == 1)
        proxy.sever()
        await until(lambda: coordinator.counters.messages_received == 2)  # same packet id, new connection
        gates[0].set()
        await until(lambda: len(calls) == 2)
        await coordinator.stop(timeout=0)  # the second delivery was never handled to its end
        async with MqttLink(settings(broker, "coordinator"), handlers={UPS: again}):
            await again.count(1)


@on("mosquitto")
async def test_a_message_whose_handler_was_cancelled_comes_again(broker: Broker) -> None:
    inbound, again = Inbound(), Inbound()
    inbound.gate.clear()
    async with link(broker, "dev-a") as device:
        async with link(broker, "coordinator") as coordinator:
            await coordinator.subscribe(UPS, inbound)
            await device.publish(UP, b"1")
            await inbound.count(1)
            await coordinator.stop(timeout=0)
        # The kept session delivers before anyone can subscribe: the handler has to be there first.
        async with MqttLink(settings(broker, "coordinator"), handlers={UPS: again}):
            await again.count(1)
    assert again.payloads == [b"1"]


@on("mosquitto")
async def test_a_handler_that_cancels_itself_is_asked_again(broker: Broker) -> None:
    calls: list[bytes] = []

    async def handle(message: Delivery) -> None:
        calls.append(message.payload)
        if len(calls) == 1:
            raise asyncio.CancelledError

    async with link(broker, "coordinator") as coordinator, link(broker, "dev-a") as device:
        await coordinator.subscribe(UPS, handle)
        await device.publish(UP, b"1")
        await until(lambda: calls == [b"1", b"1"])


@pytest.mark.reliability("C5", load="a message above the broker's limit")
@on(*KINDS)
async def test_oversize_is_refused_before_it_is_sent(broker: Broker, record_property: Record) -> None:
    async with heard(broker) as (inbound, _, device):
        with pytest.raises(BrokerError, match="above the broker's maximum of 1048576"):
            await device.publish(UP, bytes(1048576))
        largest = 1048576 - 1 - 3 - 2 - len(UP) - 2 - (1 if broker.kind == "mosquitto" else 0)
        await device.publish(UP, bytes(largest))
        await inbound.count(1)
        record_property("bytes of the largest", len(inbound.payloads[0]))
        record_property("connections", device.counters.connections)
        assert len(inbound.payloads[0]) == largest
        assert device.counters.connections == 1


@pytest.mark.slow
@on("mosquitto")
async def test_a_slow_handler_stops_the_reading_and_loses_nothing(broker: Broker) -> None:
    inbound = Inbound()
    inbound.gate.clear()
    waiting: list[int] = []
    async with link(broker, "coordinator", high_water=4, keepalive=4) as coordinator, link(broker, "dev-a") as device:
        await coordinator.subscribe(UPS, inbound)
        # With QoS 0 the broker does not wait for our acknowledgements: only TCP tells it to.
        await asyncio.gather(*(device.publish(UP, b"%d" % i, qos=0) for i in range(300)))
        began = asyncio.get_running_loop().time()
        # More than twice the keepalive: a paused link must not be taken for dead, by itself or by the broker.
        await until(lambda: asyncio.get_running_loop().time() - began > 9)
        waiting.append(coordinator.waiting)
        inbound.gate.set()
        await inbound.count(300)
        assert coordinator.counters.connections == 1
    assert inbound.payloads == [b"%d" % i for i in range(300)]
    assert waiting == [4]


@on(*KINDS)
@pytest.mark.slow
async def test_a_handler_may_publish_on_its_own_full_link(broker: Broker) -> None:
    """It waits for a PUBACK that lies behind unread messages: the link must go on reading."""
    await answered(broker, 100, qos=0, high_water=16)


@pytest.mark.slow
def test_what_a_flood_leaves_out_is_delivered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that sends on without acknowledgements, as mosquitto 2.0.11 does, to a link with few places."""
    configure = broker_mosquitto.configuration

    def flooding(*args: Any, **options: Any) -> str:
        return configure(*args, **options).replace("max_inflight_messages 1\n", "max_inflight_messages 20\n")

    monkeypatch.setattr(broker_mosquitto, "configuration", flooding)

    async def case(broker: Broker) -> None:
        assert await answered(broker, 200, qos=1, high_water=1) > 0

    run(case, tmp_path, available("mosquitto"))


@on("mosquitto")
async def test_nothing_acknowledged_is_lost_while_connections_break(broker: Broker) -> None:
    inbound = Inbound()
    async with (
        severable(broker, "coordinator", high_water=4) as (coordinator, there),
        severable(broker, "dev-a") as (device, here),
    ):
        await coordinator.subscribe(UPS, inbound)
        sends = [asyncio.create_task(device.publish(UP, b"%d" % i)) for i in range(200)]
        for done, proxy in enumerate([here, there, here, there, here, there]):
            await until(lambda done=done: sum(send.done() for send in sends) > 20 * done)  # type: ignore[misc]
            proxy.sever()
        await asyncio.gather(*sends)
        await until(lambda: {int(payload) for payload in inbound.payloads} == set(range(200)))
        assert coordinator.counters.connections >= 2 and device.counters.connections >= 2


@on("mosquitto")
async def test_cancelled_and_expired_publishes_are_not_sent(broker: Broker) -> None:
    inbound = Inbound()
    async with link(broker, "coordinator") as coordinator, link(broker, "dev-a") as device:
        broker.kill()
        await until(lambda: not device.connected and not coordinator.connected)
        given_up = asyncio.create_task(device.publish(UP, b"cancelled"))
        with pytest.raises(BrokerError, match="not acknowledged"):
            await device.publish(UP, b"expired", expiry=0.05)
        given_up.cancel()
        kept = asyncio.create_task(coordinator.subscribe(UPS, inbound))
        await broker.restart()
        await kept
        await device.publish(UP, b"kept", expiry=30)
        await inbound.count(1)
    assert inbound.payloads == [b"kept"]


@on(*KINDS)
@pytest.mark.slow
async def test_will_birth_and_goodbye(broker: Broker) -> None:
    inbound = Inbound()
    state = f"{T}/d/dev-a/state"

    async def birth(link: MqttLink) -> None:
        await link.publish(state, b"online", retain=True)

    async with link(broker, "coordinator") as coordinator, Proxy(broker.port) as proxy:
        await coordinator.subscribe(f"{T}/d/+/state", inbound)
        port, broker.port = broker.port, proxy.port
        device = MqttLink(settings(broker, "dev-a", will=Will(state, b"offline")), on_connect=birth)
        broker.port = port
        async with device:
            await inbound.count(1)
            proxy.sever()
            await inbound.count(3)
        await inbound.count(4)
    assert inbound.payloads == [b"online", b"offline", b"online", b"offline"]


@on("mosquitto")
async def test_a_failing_hook_is_counted(broker: Broker) -> None:
    async def fail(link: MqttLink) -> None:
        raise OSError("no state to tell")

    async with MqttLink(settings(broker, "dev-a"), on_connect=fail) as device:
        await until(lambda: device.counters.handler_errors == 1)
        await device.publish(UP, b"still alive")


@on(*KINDS)
@pytest.mark.slow
async def test_unsubscribed_means_nothing_more_even_after_a_reconnect(broker: Broker) -> None:
    ups, states = Inbound(), Inbound()
    async with severable(broker, "coordinator") as (coordinator, proxy), link(broker, "dev-a") as device:
        await coordinator.subscribe(UPS, ups)
        await coordinator.subscribe(f"{T}/d/+/state", states)
        await coordinator.unsubscribe(UPS)
        for i in range(2):
            await device.publish(UP, b"unwanted")
            await device.publish(f"{T}/d/dev-a/state", b"wanted")
            await states.count(i + 1)
            proxy.sever()
            await until(lambda i=i: coordinator.counters.connections == i + 2)  # type: ignore[misc]
        assert ups.messages == []
        assert coordinator.counters.unhandled == 0


@pytest.mark.reliability("F6", load="one link behind a proxy that drops all")
@pytest.mark.slow
@on("mosquitto")
async def test_a_silent_partition_is_noticed_within_one_and_a_half_keepalives(
    broker: Broker, record_property: Record
) -> None:
    keepalive = 3
    async with link(broker, "dev-a", keepalive=keepalive, connect_timeout=0.5) as device:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        began = time.monotonic()
        # 3 s x 1.5, and one as loop_misc looks once a second; a stall of the machine does not count.
        for _ in range(55):
            if not device.connected:
                break
            await asyncio.sleep(0.1)
        assert not device.connected
        record_property(f"s until noticed, keepalive {keepalive} s", round(time.monotonic() - began, 1))
        os.kill(broker.pid, signal.SIGCONT)
        await device.wait_connected(10)


@on("mosquitto")
async def test_a_stopped_link_says_so(broker: Broker) -> None:
    device = MqttLink(settings(broker, "dev-a"))
    async with device:
        await device.wait_connected(10)
        broker.kill()
        await until(lambda: not device.connected)
        waiting = [
            asyncio.create_task(device.publish(UP, b"1")),
            asyncio.create_task(device.subscribe(f"{T}/c/#", Inbound())),
            asyncio.create_task(device.wait_connected()),
        ]
        await asyncio.sleep(0)
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, BrokerError)
        assert "stopped" in str(result)
    with pytest.raises(BrokerError, match="stopped"):
        await device.publish(UP, b"2")
    assert not device.connected


@on(*KINDS)
@pytest.mark.slow
async def test_a_bad_topic_harms_nobody(broker: Broker) -> None:
    async with link(broker, "dev-a") as device:
        for topic in ("", "a/+/b", "a/#"):
            with pytest.raises(BrokerError, match="topic"):
                await device.publish(topic, b"")
        await device.publish(UP, b"")
        assert device.counters.connections == 1


def test_two_clients_of_one_name_are_told_what_that_may_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def case(broker: Broker) -> None:
        async with link(broker, "dev-a", backoff_cap=0.05), link(broker, "dev-a", backoff_cap=0.05):
            await until(lambda: "another device or program connected under this name?" in caplog.text, 20)

    run(case, tmp_path, available("mosquitto"))

    assert "Unspecified error" not in caplog.text
    lost = [record.getMessage() for record in caplog.records if "the connection" in record.getMessage()]
    assert any("another client connected under this name" in said or "the broker, closed it" in said for said in lost)
