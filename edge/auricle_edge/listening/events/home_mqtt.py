"""Events on the home's MQTT broker, and the people's answers from it. The fleet's link is another one."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import msgspec

from auricle.errors import AuricleError, SettingsError
from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle.wire.messages import DeviceId
from auricle_edge.listening.events.event import line_of
from auricle_edge.listening.feedback import Feedback
from auricle_edge.listening.sound import Event

log = logging.getLogger("auricle.events")

PATIENCE = 10.0
"""Seconds that an event may wait for the broker; an older one is no news."""


class HomeMqtt:
    """Publishes events and takes feedback.

    Parameters
    ----------
    address
        The home's broker.
    topic
        Where to publish.
    device
        Name that stands in the events.
    answer
        Called with each valid feedback, in the loop's thread; what becomes of it is published under `/answer`.
    """

    name = "mqtt"

    def __init__(
        self,
        address: BrokerAddress,
        topic: str,
        device: DeviceId,
        answer: Callable[[Feedback], Future[Mapping[str, Any]]],
    ) -> None:
        try:
            self._topic = topic.format(device=device)
        except (KeyError, IndexError, ValueError) as error:
            raise SettingsError(f"events.mqtt_topic takes no field but {{device}}: {topic}") from error
        self._device, self._answer = device, answer
        self._telling: set[asyncio.Task[None]] = set()
        self.link = MqttLink(
            LinkSettings(address, f"auricle-events-{device}"), handlers={f"{self._topic}/feedback": self._heard}
        )

    async def open(self) -> None:
        """Begin to connect."""
        await self.link.start()

    async def deliver(self, event: Event) -> None:
        """Publish one event."""
        await self.link.publish(self._topic, line_of(event, self._device).encode(), expiry=PATIENCE)

    async def close(self) -> None:
        """Disconnect."""
        for telling in tuple(self._telling):
            telling.cancel()
        await self.link.stop()

    async def _heard(self, arrived: Delivery) -> None:
        try:
            feedback = msgspec.json.decode(arrived.payload, type=Feedback)
        except msgspec.MsgspecError as error:
            log.warning("Feedback on %s was ignored: %s", arrived.topic, error)
            return
        telling = asyncio.create_task(self._tell(self._answer(feedback)))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self, answer: Future[Mapping[str, Any]]) -> None:
        """Say what became of an answer, or why nothing did."""
        try:
            told = await asyncio.wrap_future(answer)
        except AuricleError as error:
            told = {"error": str(error)}
        try:
            await self.link.publish(f"{self._topic}/answer", json.dumps(told).encode(), expiry=PATIENCE)
        except AuricleError as error:
            log.warning("The home's broker was not told what became of an answer: %s", error)
