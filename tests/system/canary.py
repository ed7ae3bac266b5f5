"""Clients that try to read and write what is not theirs, for as long as a system test runs (PROTOCOL section 7, e)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from auricle.errors import BrokerError
from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink
from auricle.wire.frames import Topics
from auricle_fleet.broker.broker import Broker

USERS = ("observer", "dev-canary")
FORGED = b"forged by a canary"


class Canary:
    """A user of the broker that oversteps its rights."""

    def __init__(self, broker: Broker, user: str, fleet: str, victims: Sequence[str], delivered: list[str]) -> None:
        self._topics, self._victims, self._delivered = Topics(fleet), victims, delivered
        self._link = MqttLink(LinkSettings(broker.address(user), user), on_connect=self._speak)

    async def start(self) -> None:
        """Subscribe to everything; what is granted is served or not, after every restart of the broker too."""
        await self._link.start()
        await self._link.wait_connected(30)
        top = self._topics.prefix
        for wanted in ("#", f"{top}/d/+/dn/#", f"{top}/d/+/up/+", f"{top}/d/+/state", f"$share/g/{top}/d/+/up/#"):
            with suppress(BrokerError):
                await self._link.subscribe(wanted, self._take)

    async def _take(self, message: Delivery) -> None:
        self._delivered.append(message.topic)

    async def _speak(self, link: MqttLink) -> None:
        """Speak as the coordinator and as devices."""
        own = [self._topics.coordinator_state, self._topics.model]
        theirs = [
            topic
            for name in self._victims
            for topic in (self._topics.up(name, "upd"), self._topics.down(name, "cmd"), self._topics.device_state(name))
        ]
        for topic in (*own, *theirs):
            with suppress(BrokerError):
                await link.publish(topic, FORGED, retain=True)

    async def stop(self) -> None:
        await self._link.stop()


async def start_canaries(
    broker: Broker, fleet: str, victims: Sequence[str], delivered: dict[str, list[str]]
) -> list[Canary]:
    """Start one canary for each of the users."""
    canaries = [Canary(broker, user, fleet, victims, delivered.setdefault(user, [])) for user in USERS]
    await asyncio.gather(*(canary.start() for canary in canaries))
    return canaries
