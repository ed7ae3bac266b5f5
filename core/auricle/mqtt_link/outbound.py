"""The table of messages that the broker has not acknowledged yet, kept by us and not by the MQTT library.

paho sends everything at once after a reconnect and queues without a limit while offline; here at most a few are on
their way, the rest waits in order, and a caller beyond the table's size waits too.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from auricle.errors import BrokerError, LinkStoppedError
from auricle.mqtt_link.connection import TOO_LARGE, Connection
from auricle.mqtt_link.packet_limit import PacketLimit, too_large
from auricle.mqtt_link.reconnection import within
from auricle.mqtt_link.settings import Counters, LinkSettings


@dataclass(eq=False)
class Outgoing:
    """A publish that waits for its acknowledgement."""

    topic: str
    payload: bytes = field(repr=False)
    retain: bool
    qos: int
    deadline: float | None
    """Loop time after which the message is of no use."""
    size: int
    """Bytes of the PUBLISH packet."""
    done: asyncio.Future[None]
    sent: float = 0.0
    """Monotonic second in which it was sent last."""


def packet_size(topic: str, payload: bytes, *, qos: int, protocol: str, expiry: bool) -> int:
    """Return the bytes of a PUBLISH packet (MQTT 5, section 3.3), fixed header included."""
    properties = (6 if expiry else 1) if protocol == "5" else 0
    rest = 2 + len(topic.encode()) + (2 if qos else 0) + properties + len(payload)
    return 1 + sum(rest >= limit for limit in (1, 1 << 7, 1 << 14, 1 << 21)) + rest


class Outbound:
    """Messages on their way to the broker: some sent, the others waiting in order.

    Parameters
    ----------
    settings
        The bounds.
    counters
        Where to count what was sent.
    changed
        Called when the table has become empty or not empty.
    """

    def __init__(self, settings: LinkSettings, counters: Counters, changed: Callable[[], None]) -> None:
        self._settings = settings
        self._counters = counters
        self._changed = changed
        self._places = asyncio.Semaphore(settings.max_outbound)
        self._waiting: deque[Outgoing] = deque()
        self._sent: dict[int, Outgoing] = {}
        self._connection: Connection | None = None
        self._limit = PacketLimit(settings.max_packet_size)
        self._closed: str | None = None

    @property
    def busy(self) -> bool:
        """Whether an acknowledgement of the broker is awaited."""
        return bool(self._sent)

    async def publish(self, topic: str, payload: bytes, *, retain: bool, qos: int, expiry: float | None) -> None:
        """Put a message into the table and wait until the broker has acknowledged it.

        Raises
        ------
        BrokerError
            The message was refused, or was not acknowledged within `expiry` seconds; `MessageTooLargeError` where it is
            above what the broker announces, or has ended the connection each time it was sent.
        """
        size = packet_size(topic, payload, qos=qos, protocol=self._settings.address.protocol, expiry=expiry is not None)
        self._limit.require(topic, size)
        if not topic:
            raise BrokerError("a message needs a topic")
        if not qos and expiry is None and self._send_at_once(topic, payload, retain=retain, size=size):
            return
        loop = asyncio.get_running_loop()
        deadline = None if expiry is None else loop.time() + expiry
        item = Outgoing(topic, payload, retain, qos, deadline, size, loop.create_future())
        if expiry is None:
            await self._deliver(item)
            return
        try:
            await within(self._deliver(item), expiry)
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise BrokerError(f"{topic}: not acknowledged by the broker within {expiry} s") from error

    def _send_at_once(self, topic: str, payload: bytes, *, retain: bool, size: int) -> bool:
        """Send what nobody acknowledges without a place in the table; False where it has to wait for one."""
        if self._connection is None or self._connection.full or self._closed is not None:
            return False
        try:
            self._connection.publish(topic, payload, qos=0, retain=retain, expiry=None)
        except ConnectionError:
            return False
        except ValueError as error:
            raise BrokerError(f'topic "{topic}": {error}') from error
        self._counters.messages_sent += 1
        self._counters.bytes_sent += size
        return True

    async def _deliver(self, item: Outgoing) -> None:
        async with self._places:
            if self._closed is not None:
                raise LinkStoppedError(f"{item.topic}: {self._closed}")
            self._waiting.append(item)
            self.flush()
            try:
                await item.done
            except asyncio.CancelledError:
                # What waits is forgotten; what was sent keeps its place until the broker answers.
                if item in self._waiting:
                    self._waiting.remove(item)
                raise

    def attach(self, connection: Connection) -> None:
        """Send over this connection, what was not acknowledged on the last one first."""
        self._connection = connection
        self._limit.announce(connection.max_packet_size)
        self.flush()

    def detach(self, *, by_broker: bool) -> None:
        """Take back what was sent and not acknowledged, in its order.

        Parameters
        ----------
        by_broker
            The broker ended the connection without a reason that clears its packets: what it was ended for may be the
            largest one. That goes out alone then, first, and is given up when it ends that connection, too.
        """
        if self._connection is None:
            self._limit.note_absent()
        self._connection = None
        back = [item for item in self._sent.values() if not item.done.done()]
        self._sent.clear()
        largest = max(back, key=lambda item: item.size, default=None)
        if largest is not None and by_broker:
            back.remove(largest)
            if self._limit.note_ended(largest.size, largest.sent):
                largest.done.set_exception(self._limit.given_up(largest.topic, largest.size))
            else:
                back.insert(0, largest)
        self._waiting.extendleft(reversed(back))
        self._changed()

    def acknowledged(self, mid: int, refusal: str | None) -> None:
        """Take note of the broker's answer and send the next message."""
        item = self._sent.pop(mid, None)
        if item is not None and refusal is None:
            self._limit.note_taken(item.size)
        if item is not None and not item.done.done():
            if refusal == TOO_LARGE:
                item.done.set_exception(too_large(item.topic, item.size))
            elif refusal is not None:
                item.done.set_exception(BrokerError(f"the broker refuses a message on {item.topic}: {refusal}"))
            else:
                item.done.set_result(None)
        self.flush()

    def close(self, reason: str) -> None:
        """Give up on every message; their callers get a LinkStoppedError with the reason, later ones too."""
        self._closed = reason
        for item in [*self._sent.values(), *self._waiting]:
            if not item.done.done():
                item.done.set_exception(LinkStoppedError(f"{item.topic}: {reason}"))
        self._sent.clear()
        self._waiting.clear()

    def flush(self) -> None:
        """Send what there is room for."""
        while self._connection and self._waiting and len(self._sent) < self._most_at_once():
            if not self._waiting[0].qos and self._connection.full:
                break
            item = self._waiting.popleft()
            if item.done.done():
                continue
            try:
                self._limit.require(item.topic, item.size)
                self._send(self._connection, item)
            except BrokerError as error:
                item.done.set_exception(error)
            except ValueError as error:
                item.done.set_exception(BrokerError(f'topic "{item.topic}": {error}'))
            except ConnectionError:
                self._waiting.appendleft(item)
                break
        self._changed()

    def _send(self, connection: Connection, item: Outgoing) -> None:
        left = None if item.deadline is None else max(1, round(item.deadline - asyncio.get_running_loop().time()))
        mid = connection.publish(item.topic, item.payload, qos=item.qos, retain=item.retain, expiry=left)
        if item.qos:
            item.sent = time.monotonic()
            self._sent[mid] = item
        else:
            item.done.set_result(None)
        self._counters.messages_sent += 1
        self._counters.bytes_sent += item.size

    def _most_at_once(self) -> int:
        """How many may be on their way, the next one included: one where a packet may have ended a connection."""
        alone = any(self._limit.suspects(item.size) for item in (*self._sent.values(), self._waiting[0]))
        return 1 if alone else self._settings.max_unacknowledged
