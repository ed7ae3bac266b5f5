"""A link to an MQTT broker that reconnects by itself and acknowledges last; shared by edge, cloud and fleet.

It keeps what PROTOCOL.md, section 3, asks of a client: paho's protocol code, but for PUBLISH and PUBACK, its sockets on
the asyncio loop, a fixed session, subscriptions renewed on every connection, messages acknowledged only after their
handler, bounded queues both ways, and no failure of a handler that leaves a link alive but deaf. A thousand links fit
in one process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType

from auricle.errors import BrokerError
from auricle.mqtt_link.connection import Connection, Events
from auricle.mqtt_link.inbound import Inbox
from auricle.mqtt_link.outbound import Outbound
from auricle.mqtt_link.reconnection import Reconnection, within
from auricle.mqtt_link.settings import BrokerAddress, Counters, Delivery, LinkSettings, Will
from auricle.mqtt_link.subscriptions import Handler, Subscriptions
from auricle.mqtt_link.tasks import start_task

__all__ = ["BrokerAddress", "ConnectHook", "Counters", "Delivery", "Handler", "LinkSettings", "MqttLink", "Will"]

ConnectHook = Callable[["MqttLink"], Awaitable[None]]

log = logging.getLogger("auricle.mqtt")


class MqttLink:
    """One client's session with a broker, over as many connections as it takes.

    `async with MqttLink(settings) as link` starts and stops it; it does not wait for the broker: see `wait_connected`.

    Parameters
    ----------
    settings
        Address, client id, will and bounds.
    handlers
        Filters subscribed on the first connection. Only these are known before the first message of a session that the
        broker has kept arrives; one that no handler wants is acknowledged and gone.
    on_connect
        Awaited after each connection and renewed subscription, e.g. to publish a birth message. It is cancelled if the
        connection ends first; an exception is logged and counted.
    """

    def __init__(
        self,
        settings: LinkSettings,
        *,
        handlers: Mapping[str, Handler] | None = None,
        on_connect: ConnectHook | None = None,
    ) -> None:
        self.settings = settings
        self.counters = Counters()
        self._on_connect = on_connect
        self._subscriptions = Subscriptions(settings.client_id, handlers or {}, self.counters)
        self._outbound = Outbound(settings, self.counters, self._gate)
        self._inbox = Inbox(
            settings.high_water, self._subscriptions.dispatch, self._acknowledge, self._gate, self.counters
        )
        self._connection: Connection | None = None
        self._generation = 0
        self._up = asyncio.Event()
        self._reconnection = Reconnection(settings)
        self._stopping = False
        self._stopped = False
        self._tasks: list[asyncio.Task[None]] = []

    # -- life

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted the connection and every subscription."""
        return self._up.is_set() and not self._stopped

    @property
    def last_error(self) -> str | None:
        """Why the last attempt to connect failed or the last connection ended."""
        return self._reconnection.last_error

    @property
    def waiting(self) -> int:
        """Received messages that wait for their handler."""
        return len(self._inbox)

    async def __aenter__(self) -> MqttLink:
        """Start the link."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the link."""
        await self.stop()

    async def start(self) -> None:
        """Begin to connect, and keep connecting until `stop`.

        Raises
        ------
        SettingsError
            A certificate file is missing or unreadable.
        """
        if self._tasks or self._stopping:
            raise BrokerError(f"link {self.settings.client_id} was started before: make a new one")
        await asyncio.to_thread(self.settings.address.tls_context)
        self._tasks = [
            asyncio.create_task(self._reconnection.run(self._connect_once)),
            asyncio.create_task(self._inbox.run()),
        ]

    async def stop(self, *, publish_will: bool = True, timeout: float = 5.0) -> None:
        """Let the running handler end, say goodbye and close; the broker keeps the session.

        Parameters
        ----------
        publish_will
            Publish the will ourselves first, since a clean DISCONNECT keeps the broker from doing so.
        timeout
            Seconds given to the running handler, and again to the will.
        """
        if self._stopping:
            return
        self._stopping = True
        self._gate()
        await self._inbox.close(timeout)
        if publish_will and self.connected:
            await self._say_will(timeout)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._outbound.close("the link was stopped")
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        self._stopped = True
        self._up.set()
        self._reconnection.settle(None)

    async def _say_will(self, timeout: float) -> None:
        will = self.settings.will
        if will is None:
            return
        try:
            await self.publish(will.topic, will.payload, retain=will.retain, qos=will.qos, expiry=timeout)
        except BrokerError as error:
            log.warning("%s: no goodbye: %s", self.settings.client_id, error)

    async def wait_connected(self, timeout: float | None = None) -> None:
        """Wait until the link is connected.

        Raises
        ------
        BrokerError
            It was not within `timeout` seconds, or to wait is of no use; the sentence names the last failure.
        """
        try:
            await within(self._reconnection.wait(self._ready), timeout)
        except (asyncio.TimeoutError, TimeoutError) as error:
            why = self.last_error or "no answer yet"
            raise BrokerError(f"no connection to {self.settings.address} within {timeout:g} s: {why}.") from error

    # -- what callers do

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, qos: int = 1, expiry: float | None = None
    ) -> None:
        """Publish and wait for the broker's PUBACK, over reconnects if need be; cancelling forgets the message.

        PUBACK is not durability: only an answer from the other side is. With QoS 0 it returns once written.

        Parameters
        ----------
        topic, payload
            What to publish where.
        retain
            The broker keeps it for later subscribers.
        qos
            1, or 0 for what may get lost.
        expiry
            Seconds for which the message is of use, here and (MQTT 5) in the broker; None means for ever.

        Raises
        ------
        BrokerError
            The broker refused it (MQTT 5 says so), `expiry` passed, or the link was stopped; `MessageTooLargeError`
            where it is above the broker's maximum, or has ended the connection each time it was sent.
        """
        await self._outbound.publish(topic, payload, retain=retain, qos=qos, expiry=expiry)

    async def subscribe(self, topic_filter: str, handler: Handler) -> None:
        """Call the handler for every message that matches, and wait for the broker's consent.

        Handlers of one link run one after the other, in the order of arrival; PUBACK is sent when the handler has
        returned. After an exception it is sent too: a message that fails every time would block the session for ever,
        and its sender waits for our answer, not the broker's. A message whose handler was cancelled, or whose
        connection was lost meanwhile, is not acknowledged and comes again.

        Raises
        ------
        BrokerError
            The broker refuses the filter. mosquitto grants filters that it will not serve: no error proves nothing.
        """
        self._subscriptions.add(topic_filter, handler)
        try:
            while not await self._grant(topic_filter):
                pass
        except BaseException:
            self._subscriptions.remove(topic_filter)
            raise

    async def _grant(self, topic_filter: str) -> bool:
        connection = await self._ready()
        try:
            await self._subscriptions.grant(connection, topic_filter)
        except ConnectionError:
            if connection is self._connection:
                self._up.clear()
            return False
        return True

    async def _ready(self) -> Connection:
        await self._up.wait()
        if self._connection is None:
            raise BrokerError(f"link {self.settings.client_id} was stopped")
        return self._connection

    async def unsubscribe(self, topic_filter: str) -> None:
        """Stop handling what matches this filter; a broker out of reach is told on the next connection."""
        self._subscriptions.remove(topic_filter)
        if self._connection is not None and self.connected:
            try:
                await self._subscriptions.retire(self._connection)
            except ConnectionError:
                log.debug("%s: connection lost while unsubscribing", self.settings.client_id)

    # -- connecting

    async def _connect_once(self) -> None:
        """Connect and stay until the connection is lost; ConnectionError or BrokerError then says why."""
        self._generation += 1
        events = Events(self._received, self._outbound.acknowledged, self._outbound.flush)
        connection = self._connection = Connection(self.settings, self._generation, events)
        hook: asyncio.Task[None] | None = None
        try:
            await connection.open()
            await self._subscriptions.renew(connection)
            self._say_up()
            self._outbound.attach(connection)
            hook = start_task(self._run_hook(), log, f"{self.settings.client_id}: the connect hook")
            raise ConnectionError(await asyncio.shield(connection.lost))
        finally:
            self._up.clear()
            self._outbound.detach(by_broker=connection.ended_by_broker)
            if hook is not None:
                hook.cancel()
            if not self._stopping:
                connection.drop("given up")
                self._connection = None

    def _say_up(self) -> None:
        self.counters.connections += 1
        self._reconnection.note_up()
        log.info("%s: connected to %s", self.settings.client_id, self.settings.address)
        self._up.set()

    async def _run_hook(self) -> None:
        if self._on_connect is None:
            return
        try:
            await self._on_connect(self)
        except BrokerError as error:
            self.counters.handler_errors += 1
            log.error("%s: %s", self.settings.client_id, error)
        except Exception:
            self.counters.handler_errors += 1
            log.exception("%s: the connect hook failed", self.settings.client_id)

    # -- receiving

    def _received(self, message: Delivery) -> None:
        self.counters.messages_received += 1
        self.counters.bytes_received += len(message.topic) + len(message.payload)
        self._inbox.put(message)
        self._gate()

    def _acknowledge(self, message: Delivery) -> None:
        if self._connection is not None and not self._connection.acknowledge(message):
            log.debug("%s: a message on %s outlived its connection", self.settings.client_id, message.topic)

    def _gate(self) -> None:
        """Read the socket only while there is room, or while an answer is awaited that a handler may be waiting for."""
        connection = self._connection
        if connection is None:
            return
        if self._inbox.wants_redelivery(connection.generation) and not self._stopping:
            self._reconnection.hurry()
            connection.drop("messages that were left out are wanted again")
        else:
            connection.hold(self._inbox.full and not self._outbound.busy and not self._stopping)
