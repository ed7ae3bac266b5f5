"""One connection to a broker: a paho client driven by asyncio, opened once and never opened again.

A new client for every connection leaves nothing behind to be resent or acknowledged by mistake, and lets `connect()`
run in a thread on an object that nothing else knows yet.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage, error_string
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from auricle.errors import BrokerError
from auricle.mqtt_link.deadline import within
from auricle.mqtt_link.dial import close, dial, dialers, hang_up, new_properties
from auricle.mqtt_link.settings import Delivery, LinkSettings

log = logging.getLogger("auricle.mqtt")


class Events(NamedTuple):
    """Whom a connection tells; called on the loop, between two reads."""

    received: Callable[[Delivery], None]
    published: Callable[[int, ReasonCode], None]
    """Packet id and code of an acknowledged publish."""


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
        self._sock: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._held = False
        self._reading = False
        self._pinged = 0.0
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
            The broker cannot be reached, does not answer or refuses; the sentence says which.
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
            client.on_disconnect = client.on_message = client.on_publish = client.on_socket_close = None
        self._detach()
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

    def _attach(self, client: Client) -> None:
        self._client = client
        self._sock = cast("socket.socket | None", client.socket())
        if self._sock is None:
            self._end("the connection was closed at once")
            return
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_answer
        client.on_unsubscribe = self._on_answer
        client.on_socket_close = lambda *_: self._detach()
        client.on_socket_register_write = lambda *_: self._watch_write()
        client.on_socket_unregister_write = lambda *_: self._unwatch_write()
        self._adjust_reading()
        if client.want_write():
            self._watch_write()
        self._timer = self._loop.call_later(1.0, self._tick)

    def _detach(self) -> None:
        if self._sock is not None:
            self._unwatch_write()
            self._loop.remove_reader(self._sock)
            self._reading = False
            self._sock = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- sending

    def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool, expiry: int | None) -> int:
        """Hand a message to the socket and return its packet id.

        Raises
        ------
        ConnectionError
            The connection is over.
        """
        properties = None
        if expiry is not None and self._settings.address.protocol == "5":
            properties = new_properties(PacketTypes.PUBLISH)
            properties.MessageExpiryInterval = expiry
        info = self._live().publish(topic, payload, qos=qos, retain=retain, properties=properties)
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise ConnectionError(error_string(info.rc))
        return info.mid

    def acknowledge(self, message: Delivery) -> bool:
        """Send PUBACK and return True, unless the message came over another connection or this one is over."""
        if message.generation != self.generation or self._client is None or self.lost.done():
            return False
        self._client.ack(message.mid, message.qos)
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

    # -- paho's callbacks, all on the loop

    def _on_connect(
        self, client: Client, userdata: object, flags: ConnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        if self._connack.done():
            return
        if code.is_failure:
            sentence = f"the broker at {self._settings.address} refuses {self._settings.client_id}: {code}"
            if str(code) in ("Not authorized", "Bad user name or password"):
                sentence += ", look at its name and password"
            self._connack.set_exception(BrokerError(sentence))
            return
        announced = getattr(properties, "MaximumPacketSize", None)
        self.max_packet_size = min(announced or self.max_packet_size, self.max_packet_size)
        self._connack.set_result(None)

    def _on_disconnect(
        self, client: Client, userdata: object, flags: DisconnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        by = "the broker says" if flags.is_disconnect_packet_from_server else "connection ended"
        self._end(f"{by}: {code}")

    def _on_message(self, client: Client, userdata: object, message: MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            log.warning("%s: message on a topic that is not UTF-8 left out", self._settings.client_id)
            client.ack(message.mid, message.qos)
            return
        self._events.received(
            Delivery(
                topic, bytes(message.payload), message.qos, message.retain, message.dup, message.mid, self.generation
            )
        )

    def _on_publish(self, client: Client, userdata: object, mid: int, code: ReasonCode, properties: Properties) -> None:
        self._events.published(mid, code)

    def _on_answer(self, client: Client, userdata: object, mid: int, codes: list[ReasonCode], *_: object) -> None:
        answer = self._answers.get(mid)
        if answer is not None and not answer.done():
            answer.set_result(list(codes))

    # -- the socket on the loop

    def hold(self, held: bool) -> None:
        """Stop reading the socket, or go on: what is not read fills TCP's window and then the broker's queue."""
        self._held = held
        self._adjust_reading()

    def _adjust_reading(self) -> None:
        wanted = not self._held or bool(self._answers)
        if self._sock is None or wanted == self._reading:
            return
        self._reading = wanted
        if wanted:
            self._loop.add_reader(self._sock, self._readable)
            # What TLS has already decrypted makes no socket readable.
            self._loop.call_soon(self._readable)
        else:
            self._loop.remove_reader(self._sock)

    def _readable(self) -> None:
        while self._reading and self._client is not None:
            self._guarded(self._client.loop_read)
            if not isinstance(self._sock, ssl.SSLSocket) or not self._sock.pending():
                return

    def _watch_write(self) -> None:
        if self._sock is not None and self._client is not None:
            self._loop.add_writer(self._sock, self._guarded, self._client.loop_write)

    def _unwatch_write(self) -> None:
        if self._sock is not None:
            self._loop.remove_writer(self._sock)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(1.0, self._tick)
        if self._client is None:
            return
        if self._reading:
            self._guarded(self._client.loop_misc)
            return
        if time.monotonic() - self._pinged > self._client.keepalive / 2:
            self._pinged = time.monotonic()
            self._guarded(self._client._send_pingreq)
        if self._client is not None:
            # The answer lies unread in the socket, so paho must not count the seconds since the question.
            self._client._ping_t = 0.0

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:
            log.exception("%s: the MQTT library failed; connecting again", self._settings.client_id)
            self.drop("the MQTT library failed")
