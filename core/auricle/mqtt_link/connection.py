"""One connection to a broker: a paho client driven by asyncio, opened once and never opened again.

A new client for every connection leaves nothing behind to be resent or acknowledged by mistake, and lets `connect()`
run in a thread on an object that nothing else knows yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, error_string
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from auricle.errors import BrokerDistrustError, BrokerError
from auricle.mqtt_link.dial import close, dial, dialers, hang_up
from auricle.mqtt_link.loop_socket import LoopSocket, Receivers
from auricle.mqtt_link.packets import Published, puback, publish_head
from auricle.mqtt_link.reconnection import within
from auricle.mqtt_link.settings import Delivery, LinkSettings

log = logging.getLogger("auricle.mqtt")

DENIALS = ("Not authorized", "Bad user name or password")
"""What a broker's CONNACK says, in paho's words, where it does not take this name and password."""

REFUSED = 0x80
"""Reason codes from here on are refusals (MQTT 5, 2.4)."""

TOO_LARGE = "Packet too large"
"""What MQTT 5 says of a message above a broker's limit (0x95)."""

ENDINGS = {
    "Unspecified error": "the network, or the broker, closed it",
    "Keep alive timeout": "no sign of life came in time",
    "Session taken over": "another client connected under this name",
    "Server shutting down": "it shuts down",
    TOO_LARGE: "a message was too large for it",
    "Quota exceeded": "it allows no more",
    "Administrative action": "its operator did",
}
"""Why a connection ended, by paho's words for MQTT's reason codes."""
PERHAPS_A_PACKET = ("Unspecified error", TOO_LARGE)
"""Those that do not say that it was something else than a packet that the broker does not take."""


class Events(NamedTuple):
    """Whom a connection tells; called on the loop, between two reads."""

    received: Callable[[Delivery], None]
    published: Callable[[int, str | None], None]
    """Packet id of an acknowledged publish, and why the broker refuses it, if it does."""
    drained: Callable[[], None]
    """There is room again for what nobody acknowledges."""


OURS = 1 << 15
"""The packet ids of what is published begin here: those below are the library's, of its few SUBSCRIBEs."""


class Connection:
    """A connection that is opened, used and lost once.

    Parameters
    ----------
    settings
        The link's settings.
    generation
        Number that every message of this connection carries.
    events
        Whom to tell about messages and acknowledgements.
    """

    def __init__(self, settings: LinkSettings, generation: int, events: Events) -> None:
        self.generation = generation
        self.max_packet_size = settings.max_packet_size
        self._settings = settings
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._five = settings.address.protocol == "5"
        receivers = Receivers(self._on_published, self._on_acknowledged, events.drained)
        self._socket = LoopSocket(settings.client_id, settings.max_packet_size, receivers, self.drop)
        self._ended_for = ""
        """What the broker, or the network, said when the connection was over, in paho's words; empty: nothing."""
        self._mid = OURS
        self._held = False
        self._connack: asyncio.Future[None] = self._loop.create_future()
        self._answers: dict[int, asyncio.Future[list[ReasonCode]]] = {}
        self.lost: asyncio.Future[str] = self._loop.create_future()
        """Done, with the reason in words, as soon as the connection is over."""

    # -- opening and closing

    async def open(self) -> None:
        """Connect, in a thread, and wait for the broker's answer.

        Raises
        ------
        BrokerError
            The broker cannot be reached, does not answer or refuses; the sentence says which. `BrokerDistrustError`
            where its certificate does not hold, or it does not take this name and password.
        """
        dialled = self._loop.run_in_executor(dialers, dial, self._settings)
        try:
            client = await asyncio.shield(dialled)
        except asyncio.CancelledError:
            dialled.add_done_callback(hang_up)
            raise
        try:
            self._attach(client)
            await within(self._connack, self._settings.connect_timeout)
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise BrokerError(f"the broker at {self._settings.address} does not answer") from error
        finally:
            if not self._connack.done() or self._connack.cancelled() or self._connack.exception():
                self.drop("not opened")

    async def close(self, timeout: float = 2.0) -> None:
        """Say DISCONNECT, so that the broker does not publish the will, and close."""
        if self._client is not None and not self.lost.done():
            self._client.disconnect()
            await asyncio.wait([self.lost], timeout=timeout)
        self.drop("closed")

    def drop(self, reason: str) -> None:
        """Close the socket without a word: the broker publishes the will, and keeps what was not acknowledged."""
        client, self._client = self._client, None
        if client is not None:
            client.on_disconnect = client.on_socket_close = None
        self._socket.detach()
        close(client)
        self._end(reason)

    def _end(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)
        if not self._connack.done():
            self._connack.set_exception(BrokerError(f"the broker at {self._settings.address} hung up: {reason}"))
            self._connack.exception()  # seen: nobody waits for it if dialling has failed
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError(reason))
        self._answers.clear()

    @property
    def ended_by_broker(self) -> bool:
        """Whether the other side ended it, and did not say that it was for something else than a packet."""
        return self._socket.was_reset or self._ended_for in PERHAPS_A_PACKET

    def _attach(self, client: Client) -> None:
        self._client = client
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_answer
        client.on_unsubscribe = self._on_answer
        if not self._socket.attach(client, properties=self._five):
            self._end("the connection was closed at once")

    # -- sending

    def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool, expiry: int | None) -> int:
        """Hand a message to the socket and return its packet id.

        Raises
        ------
        ConnectionError
            The connection is over.
        ValueError
            Nothing can be published on this topic.
        """
        self._live()
        self._mid = mid = self._mid + 1 if self._mid < 0xFFFF else OURS
        about = {"retain": retain, "properties": self._five}
        self._socket.write(
            publish_head(topic.encode(), len(payload), qos=qos, mid=mid, expiry=expiry, **about), payload
        )
        return mid

    @property
    def full(self) -> bool:
        """Whether what nobody acknowledges has to wait."""
        return self._socket.full

    def acknowledge(self, message: Delivery) -> bool:
        """Send PUBACK and return True, unless the message came over another connection or this one is over."""
        if message.generation != self.generation or self._client is None or self.lost.done():
            return False
        if message.qos:
            self._socket.write(puback(message.mid))
        return True

    async def subscribe(self, filters: Sequence[str]) -> list[ReasonCode]:
        """Subscribe with QoS 1 and return the broker's code for each filter; ConnectionError if the connection ends."""
        return await self._answer(self._live().subscribe([(name, 1) for name in filters]))

    async def unsubscribe(self, filters: Sequence[str]) -> None:
        """Unsubscribe; ConnectionError if the connection ends."""
        await self._answer(self._live().unsubscribe(list(filters)))

    async def _answer(self, sent: tuple[MQTTErrorCode, int | None]) -> list[ReasonCode]:
        code, mid = sent
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS or mid is None:
            raise ConnectionError(error_string(code))
        answer: asyncio.Future[list[ReasonCode]] = self._loop.create_future()
        self._answers[mid] = answer
        self._adjust_reading()
        try:
            return await within(answer, self._settings.keepalive)
        except (asyncio.TimeoutError, TimeoutError) as error:
            self.drop("the broker did not answer a SUBSCRIBE")
            raise ConnectionError("the broker did not answer a SUBSCRIBE") from error
        finally:
            self._answers.pop(mid, None)
            self._adjust_reading()

    def _live(self) -> Client:
        if self._client is None or self.lost.done():
            raise ConnectionError("the connection is over")
        return self._client

    def hold(self, held: bool) -> None:
        """Stop reading, but for an answer that is waited for, or go on."""
        self._held = held
        self._adjust_reading()

    def _adjust_reading(self) -> None:
        self._socket.read(not self._held or bool(self._answers))

    # -- what comes, all on the loop

    def _on_published(self, message: Published) -> None:
        try:
            arrived = Delivery(
                message.topic.decode(),
                message.payload,
                message.qos,
                message.retain,
                message.duplicate,
                message.mid,
                self.generation,
            )
        except UnicodeDecodeError:
            log.warning("%s: message on a topic that is not UTF-8 left out", self._settings.client_id)
            if message.qos:
                self._socket.write(puback(message.mid))
            return
        self._events.received(arrived)

    def _on_acknowledged(self, mid: int, code: int) -> None:
        self._events.published(mid, _refusal(code) if code >= REFUSED else None)

    def _on_connect(
        self, client: Client, userdata: object, flags: ConnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        if self._connack.done():
            return
        if code.is_failure:
            sentence = f"the broker at {self._settings.address} refuses {self._settings.client_id}: {code}"
            failed: type[BrokerError] = BrokerError
            if str(code) in DENIALS:
                failed, sentence = BrokerDistrustError, f"{sentence}, look at its name and password"
            self._connack.set_exception(failed(sentence))
            return
        announced = getattr(properties, "MaximumPacketSize", None)
        self.max_packet_size = min(announced or self.max_packet_size, self.max_packet_size)
        self._connack.set_result(None)

    def _on_disconnect(
        self, client: Client, userdata: object, flags: DisconnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        self._ended_for = str(code)
        why = ENDINGS.get(str(code), str(code).lower())
        by = "the broker ended the connection" if flags.is_disconnect_packet_from_server else "the connection was lost"
        self._end(f"{by}: {why}")

    def _on_answer(self, client: Client, userdata: object, mid: int, codes: list[ReasonCode], *_: object) -> None:
        answer = self._answers.get(mid)
        if answer is not None and not answer.done():
            answer.set_result(list(codes))


def _refusal(code: int) -> str:
    """Why a broker did not take a message; some say "packet too large" although MQTT 5 has that for DISCONNECT only."""
    if code == ReasonCode(PacketTypes.DISCONNECT, TOO_LARGE).value:
        return TOO_LARGE
    try:
        return str(ReasonCode(PacketTypes.PUBACK, identifier=code))
    except (KeyError, ValueError):  # a code that MQTT 5 does not have for an acknowledgement
        return f"for the reason {code}, which MQTT 5 does not know"
