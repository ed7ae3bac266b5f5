"""A device whose broker takes no message as large as its update: it says so, forgets it, and goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.edge.agent_site import FLEET, USERS, Site, digits, until, with_broker

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.mqtt_link.settings import BrokerAddress, Protocol
from auricle.wire.messages import Get, Status, Update
from auricle_edge.fleet.update_delivery import UNANSWERED_SENDINGS
from auricle_fleet.broker import mosquitto
from auricle_fleet.broker.broker import Broker, start_broker

FEW = 4 * digits().pack.plugin_table.size + 250
"""Bytes that hold a model, and not an update with its header."""


class Spoken:
    """A broker whose devices speak one version of MQTT, and its coordinator the other."""

    def __init__(self, broker: Broker, protocol: Protocol) -> None:
        self._broker, self._protocol = broker, protocol

    def address(self, user: str, /) -> BrokerAddress:
        told = self._broker.address(user)
        return told if user == "coordinator" else replace(told, protocol=self._protocol)


def limited(
    case: Callable[[Site], Awaitable[None]],
    folder: Path,
    patch: pytest.MonkeyPatch,
    option: str,
    protocol: Protocol,
) -> None:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    before = mosquitto.configuration
    line = f"{option} {FEW}"

    def configuration(*args: object, **more: object) -> str:
        kept = [each for each in before(*args, **more).splitlines() if not each.startswith("max_packet_size")]  # type: ignore[arg-type]
        return "\n".join([line, *kept, ""])

    patch.setattr(mosquitto, "configuration", configuration)

    async def whole() -> None:
        async with await start_broker(folder, USERS, fleet=FLEET, kind="mosquitto") as broker:
            await with_broker(case, digits(), folder, Spoken(broker, protocol))

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("option", "protocol"), [("max_packet_size", "3.1.1"), ("max_packet_size", "5"), ("message_size_limit", "5")]
)
def test_the_coordinator_hears_why_and_the_device_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, protocol: Protocol
) -> None:
    async def case(site: Site) -> None:
        c = site.coordinator
        async with site.device(ask_every=0.2) as agent:
            await c.say("inv", c.invite(site.model))
            status = await c.wait(Status)
            assert (status.state, status.round) == ("failed", 1)
            assert "bytes" in status.reason
            await until(lambda: agent.state == "idle")
            assert not site.pending.exists()
            asked = len(c.said(Get))
            await c.wait(Get, asked + 2)
            assert c.said(Update) == []

    limited(case, tmp_path, monkeypatch, option, protocol)


def test_a_message_that_is_dropped_without_a_word_is_doubted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def case(site: Site) -> None:
        c = site.coordinator
        async with site.device(resend_every=0.1):
            await c.say("inv", c.invite(site.model))
            await until(lambda: "auricle cloud preflight" in caplog.text)
            assert f"{UNANSWERED_SENDINGS} times" in caplog.text
            assert c.said(Update) == []

    with caplog.at_level(logging.WARNING):
        limited(case, tmp_path, monkeypatch, "message_size_limit", "3.1.1")
