"""A message that the broker does not take is given up with one sentence, and smaller ones go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.core.test_mqtt_link import UP, UPS, Inbound, available, link, run, settings, until

from auricle.errors import MessageTooLargeError
from auricle.mqtt_link.link import LinkSettings, MqttLink
from auricle.mqtt_link.packet_limit import REMEMBERED_SECONDS, SOON_SECONDS, PacketLimit
from auricle.mqtt_link.settings import Protocol
from auricle.process.size_trial import broker_takes
from auricle_fleet.broker import mosquitto
from auricle_fleet.broker.broker import Broker

MIB = 1 << 20


class Seconds:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_packet_is_given_up_when_it_ends_a_second_connection() -> None:
    limit = PacketLimit(MIB)
    assert not limit.note_ended(40_000, limit._monotonic())
    assert limit.suspects(40_000)
    assert limit.suspects(50_000)
    assert not limit.suspects(39_999)
    assert limit.note_ended(40_000, limit._monotonic())
    limit.require("t", 39_999)
    with pytest.raises(MessageTooLargeError, match="packet of 40000 bytes"):
        limit.require("t", 40_000)


def test_a_broker_that_was_away_in_between_ended_it_for_itself() -> None:
    limit = PacketLimit(MIB)
    limit.note_ended(40_000, limit._monotonic())
    limit.note_absent()
    assert not limit.note_ended(40_000, limit._monotonic())


def test_what_was_taken_once_is_never_suspected() -> None:
    limit = PacketLimit(MIB)
    limit.note_taken(40_000)
    assert not any(limit.note_ended(40_000, limit._monotonic()) for _ in range(5))
    assert not limit.suspects(40_000)


def test_a_connection_that_ends_long_after_the_packet_ended_for_something_else() -> None:
    clock = Seconds()
    limit = PacketLimit(MIB, clock)
    sent, clock.now = clock.now, clock.now + SOON_SECONDS + 1
    assert not any(limit.note_ended(40_000, sent) for _ in range(5))


def test_after_a_while_it_is_tried_again() -> None:
    clock = Seconds()
    limit = PacketLimit(MIB, clock)
    for _ in range(2):
        limit.note_ended(40_000, clock.now)
    clock.now += REMEMBERED_SECONDS + 1
    limit.require("t", 40_000)


def limited(case: Callable[[Broker], Awaitable[None]], folder: Path, line: str, patch: pytest.MonkeyPatch) -> None:
    """Run a case at a mosquitto with another limit; both settings are tried as they stand in real configurations."""
    before = mosquitto.configuration

    def configuration(*args: object, **more: object) -> str:
        kept = [each for each in before(*args, **more).splitlines() if not each.startswith("max_packet_size")]  # type: ignore[arg-type]
        return "\n".join([line, *kept, ""])

    patch.setattr(mosquitto, "configuration", configuration)
    run(case, folder, available("mosquitto"))


def spoken(told: LinkSettings, protocol: Protocol) -> LinkSettings:
    return replace(told, address=replace(told.address, protocol=protocol))


@pytest.mark.parametrize(
    ("line", "protocol", "sentence"),
    [
        ("max_packet_size 20000", "5", "a packet of 40035 bytes is above the broker's maximum of 20000"),
        (
            "max_packet_size 20000",
            "3.1.1",
            "ends the connection whenever it is sent a packet of 40034 bytes",
        ),
        ("message_size_limit 20000", "5", "the broker takes no message of 40035 bytes"),
    ],
)
def test_one_message_is_given_up_and_the_others_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, protocol: Protocol, sentence: str
) -> None:
    async def case(broker: Broker) -> None:
        inbound = Inbound()
        told = spoken(settings(broker, "dev-a"), protocol)
        async with link(broker, "coordinator") as coordinator, MqttLink(told) as device:
            await coordinator.subscribe(UPS, inbound)
            await device.wait_connected(10)
            said = [b"before", bytes(40_000), b"after"]
            results = await asyncio.gather(*(device.publish(UP, each) for each in said), return_exceptions=True)
            assert [results[0], results[2]] == [None, None]
            assert isinstance(results[1], MessageTooLargeError)
            assert sentence in str(results[1])
            await device.publish(UP, b"later")
            await until(lambda: {b"before", b"after", b"later"} <= set(inbound.payloads))
            assert device.counters.connections <= 3

    limited(case, tmp_path, line, monkeypatch)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("line", ["max_packet_size 20000", "message_size_limit 20000", "max_packet_size 131072"])
def test_a_trial_says_what_the_broker_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, protocol: Protocol
) -> None:
    """The coordinator sees what is dropped without a word; a device, on a topic that is denied to it, all but that."""

    async def case(broker: Broker) -> None:
        small = line.endswith("20000")
        for user, topic, comes_back in (
            ("coordinator", "auricle/1/f/c/try", True),
            ("dev-a", "auricle/1/f/d/dev-a/up/try", False),
        ):
            told = spoken(settings(broker, user), protocol)
            verdict, sentence = await asyncio.to_thread(
                broker_takes, told, topic, 40_000, comes_back=comes_back, seconds=2.0
            )
            unseen = protocol == "3.1.1" and not comes_back and not line.startswith("max_packet_size 20000")
            assert verdict == ("doubtful" if unseen else "bad" if small else "good"), sentence
            assert "40000" in sentence

    limited(case, tmp_path, line, monkeypatch)
