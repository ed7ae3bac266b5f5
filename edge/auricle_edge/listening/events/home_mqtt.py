"""Events on the home's MQTT broker, and the people's answers from it. The fleet's link is another one."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable
from concurrent.futures import Future

import msgspec

from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.mqtt_link.link import Delivery, Handler, LinkSettings, MqttLink
from auricle.mqtt_link.settings import BrokerAddress
from auricle.mqtt_link.tasks import start_task
from auricle.wire.kinds import UNDECODABLE, DeviceId, plain
from auricle_edge.listening.events.announced import Announced
from auricle_edge.listening.events.home_assistant import Topics
from auricle_edge.listening.events.home_device import HomeDevice
from auricle_edge.listening.events.home_entities import presses
from auricle_edge.listening.events.one_answer import OneAnswer
from auricle_edge.listening.events.outputs import line_of
from auricle_edge.listening.events.presence import Presence
from auricle_edge.listening.events.sparse_log import SparseLog
from auricle_edge.listening.sound import Detection, Event, Feedback

log = logging.getLogger("auricle.events")

PATIENCE_SECONDS = 10.0
"""Seconds that an event may wait for the broker; an older one is no news."""


LARGEST_FEEDBACK = 4096
"""Bytes."""

LONGEST_REASON = 200
"""Characters of what is wrong with it, some of which whoever wrote it chose."""


class _Shown(Feedback, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Feedback with what shows that it may be given."""

    token: str


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
    token
        What feedback has to carry: it becomes labels to train on. None: none is taken, nor subscribed to.
    home
        Of whom Home Assistant is told by discovery, and its prefix; None: it is not.
    bids
        Topic at which devices settle which of them answers; None: this one answers everything.
    bids_key
        With which they sign what they say there; None: they do not.
    announced
        What this device has left retained at the broker, to be taken back where it is not announced any more.
    """

    name = "mqtt"

    def __init__(
        self,
        address: BrokerAddress,
        topic: str,
        device: DeviceId,
        answer: Callable[[Feedback], Future[msgspec.Struct]],
        token: str | None = None,
        *,
        home: tuple[HomeDevice, str] | None = None,
        bids: str | None = None,
        bids_key: bytes | None = None,
        announced: Announced | None = None,
    ) -> None:
        try:
            self._topic = topic.format(device=device)
        except (KeyError, IndexError, ValueError) as error:
            raise SettingsError(f"events.mqtt_topic takes no field but {{device}}: {topic}") from error
        self._device, self._answer, self._token = device, answer, token
        self._sparse = SparseLog(log)
        self._telling: set[asyncio.Task[None]] = set()
        topics = Topics(self._topic)
        handlers: dict[str, Handler] = {} if token is None else {topics.feedback: self._on_delivery}
        self._presses = presses(home[0].wake) if home is not None and home[0].buttons else {}
        if self._presses:
            handlers[topics.press] = self._on_press
        self._announced = announced
        self._presence = None if home is None else Presence(home[1], topics, home[0])
        self._bids = bids or ""
        self.one_answer = (
            None if bids is None else OneAnswer(device, self._bid, lambda: self.link.connected, key=bids_key)
        )
        """Who settles which device answers; None: this one does."""
        if self.one_answer is not None:
            handlers[self._bids] = self.one_answer.heard
        if self._presence is not None:
            handlers.update(self._presence.handlers)
        self.link = MqttLink(
            LinkSettings(
                address, f"auricle-events-{device}", will=None if self._presence is None else self._presence.will
            ),
            handlers=handlers,
            on_connect=self._on_connect,
        )

    async def open(self) -> None:
        """Begin to connect."""
        await self.link.start()
        if self._presence is not None:
            self._presence.start(self.link)

    async def deliver(self, event: Event) -> None:
        """Publish one event."""
        await self.link.publish(self._topic, line_of(event, self._device).encode(), expiry=PATIENCE_SECONDS)
        if self._presence is not None and isinstance(event, Detection):
            await self._presence.heard(self.link, event, PATIENCE_SECONDS)

    async def close(self) -> None:
        """Disconnect."""
        for telling in tuple(self._telling):
            telling.cancel()
        if self._presence is not None:
            self._presence.stop()
        if self.one_answer is not None:
            self.one_answer.close()
        await self.link.stop()

    async def _on_connect(self, link: MqttLink) -> None:
        if self._announced is not None:
            try:
                await self._announced.renew(link, () if self._presence is None else self._presence.topics)
            except StorageError as error:
                log.warning("What is announced to the home cannot be remembered: %s", error)
        if self._presence is not None:
            await self._presence.announce(link)

    async def _bid(self, payload: bytes) -> None:
        await self.link.publish(self._bids, payload, qos=0)

    async def _on_delivery(self, arrived: Delivery) -> None:
        if arrived.retain or len(arrived.payload) > LARGEST_FEEDBACK:
            self._sparse.warning("Feedback on %s was ignored: it is retained, or longer than an answer.", arrived.topic)
            return
        try:
            said = msgspec.json.decode(arrived.payload, type=_Shown)
        except UNDECODABLE as error:
            self._sparse.warning("Feedback on %s was ignored: %s", arrived.topic, plain(str(error))[:LONGEST_REASON])
            return
        if self._token is None or not hmac.compare_digest(said.token.encode(), self._token.encode()):
            self._sparse.warning("Feedback on %s was ignored: it does not carry this device's token.", arrived.topic)
            return
        self._begin(Feedback(said.verdict, said.id, said.word))

    async def _on_press(self, arrived: Delivery) -> None:
        feedback = None if arrived.retain else self._presses.get(arrived.payload)
        if feedback is None:
            self._sparse.warning("A message on %s was ignored: it is retained, or no button's.", arrived.topic)
            return
        self._begin(feedback)

    def _begin(self, feedback: Feedback) -> None:
        telling = start_task(self._tell(self._answer(feedback)), log, "An answer to the home's broker")
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self, answer: Future[msgspec.Struct]) -> None:
        """Say what became of an answer, or why nothing did."""
        try:
            told = msgspec.json.encode(await asyncio.wrap_future(answer))
        except AuricleError as error:
            told = msgspec.json.encode({"error": str(error)})
        try:
            await self.link.publish(f"{self._topic}/answer", told, expiry=PATIENCE_SECONDS)
        except AuricleError as error:
            log.warning("The home's broker was not told what became of an answer: %s", error)
