"""What a link is subscribed to, and who handles which message."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager

from auricle.errors import BrokerError
from auricle.mqtt_link.connection import Connection
from auricle.mqtt_link.settings import Counters, Delivery

Handler = Callable[[Delivery], Awaitable[None] | None]
"""Given a message, does what it asks for, or returns what is to be awaited for that."""

log = logging.getLogger("auricle.mqtt")


class Subscriptions:
    """Filters with their handlers, and what of it the broker has agreed to.

    Parameters
    ----------
    name
        The client id, for the log.
    handlers
        Filters to subscribe to on the first connection.
    counters
        Where to count failures.
    """

    def __init__(self, name: str, handlers: Mapping[str, Handler], counters: Counters) -> None:
        self._name = name
        self._counters = counters
        self._handlers = dict(handlers)
        self._granted = set(handlers)
        self._retired: set[str] = set()

    def add(self, topic_filter: str, handler: Handler) -> None:
        """Handle what matches from now on: messages may come before the broker's consent."""
        self._handlers[topic_filter] = handler
        self._retired.discard(topic_filter)

    def remove(self, topic_filter: str) -> None:
        """Forget a filter here; `retire` tells the broker."""
        self._handlers.pop(topic_filter, None)
        self._granted.discard(topic_filter)
        self._retired.add(topic_filter)

    async def grant(self, connection: Connection, topic_filter: str) -> None:
        """Ask the broker for one filter.

        Raises
        ------
        BrokerError
            It refuses.
        ConnectionError
            The connection ended first.
        """
        [code] = await connection.subscribe([topic_filter])
        if code.is_failure:
            raise BrokerError(f"the broker refuses the subscription to {topic_filter}: {code}")
        if topic_filter in self._handlers:
            self._granted.add(topic_filter)

    async def retire(self, connection: Connection) -> None:
        """Tell the broker which filters are no longer wanted; ConnectionError if the connection ends first."""
        gone = sorted(self._retired)
        if gone:
            await connection.unsubscribe(gone)
            self._retired.difference_update(gone)

    async def renew(self, connection: Connection) -> None:
        """Subscribe to what was given at the start or granted since: the broker may have lost the session.

        Raises
        ------
        BrokerError
            The broker refuses one of the filters; a link without it would be alive and deaf.
        """
        await self.retire(connection)
        filters = sorted(self._granted)
        if not filters:
            return
        codes = await connection.subscribe(filters)
        refused = [name for name, code in zip(filters, codes, strict=True) if code.is_failure and name in self._granted]
        if refused:
            raise BrokerError(f"the broker refuses the subscription to {', '.join(refused)}")

    def dispatch(self, message: Delivery) -> Coroutine[None, None, None] | None:
        """Give a message to each handler whose filter matches; what is to be awaited for that, None if it is done.

        An exception is logged and counted.
        """
        handlers = [handler for name, handler in self._handlers.items() if matches(name, message.topic)]
        if not handlers:
            self._counters.unhandled += 1
            log.debug("%s: no handler for a message on %s", self._name, message.topic)
        for place, handler in enumerate(handlers):
            with self._log_errors(message):
                waiting = handler(message)
                if waiting is not None:
                    return self._go_on(message, waiting, handlers[place + 1 :])
        return None

    async def _go_on(self, message: Delivery, waiting: Awaitable[None], others: Sequence[Handler]) -> None:
        with self._log_errors(message):
            await waiting
        for handler in others:
            with self._log_errors(message):
                after = handler(message)
                if after is not None:
                    await after

    @contextmanager
    def _log_errors(self, message: Delivery) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._counters.handler_errors += 1
            log.exception("%s: the handler of a message on %s failed", self._name, message.topic)


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a topic falls under a filter (MQTT 5, section 4.7); of `$share/group/filter` the last part counts."""
    if topic_filter.startswith("$share/"):
        topic_filter = topic_filter.split("/", 2)[2]
    if "+" not in topic_filter and "#" not in topic_filter:
        return topic_filter == topic
    asked, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and asked[0] in ("+", "#"):
        return False
    if asked[-1] == "#":
        asked.pop()
        levels = levels[: len(asked)]
    return len(asked) == len(levels) and all(
        wanted in ("+", level) for wanted, level in zip(asked, levels, strict=True)
    )
