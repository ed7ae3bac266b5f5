"""The bounded queue of received messages, which are handed on in order, one after the other."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine

from auricle.mqtt_link.settings import Counters, Delivery

log = logging.getLogger("auricle.mqtt")

# Above high water the socket is not read, unless an answer of the broker is awaited that would then never come. For
# that case the queue may grow to this many times high water; what comes after that is left to a new connection.
_HARD_LIMIT = 8


class Inbox:
    """Received messages that wait for their handler.

    Parameters
    ----------
    high_water
        Number of messages from which on no more are wanted.
    handle
        Given one message after the other. What it returns is awaited; where that is None, the message is done with.
    done
        Called with a message that is done with; not called for one whose handling was cancelled.
    changed
        Called after each message, and when there is room for another.
    """

    def __init__(
        self,
        high_water: int,
        handle: Callable[[Delivery], Coroutine[None, None, None] | None],
        done: Callable[[Delivery], None],
        changed: Callable[[], None],
        counters: Counters,
    ) -> None:
        self._high_water = high_water
        self._handle = handle
        self._done = done
        self._changed = changed
        self._counters = counters
        self._queue: deque[Delivery] = deque()
        self._handling: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = asyncio.Event()
        self._overflowed = 0

    def put(self, message: Delivery) -> None:
        """Take a message in; at the hard limit, and from then on, leave it to be delivered on a new connection."""
        if self._closing.is_set() or message.generation == self._overflowed:
            self._counters.overflowed += 1
            return
        if len(self._queue) >= self._high_water * _HARD_LIMIT:
            self._overflowed = message.generation
            self._counters.overflowed += 1
            return
        if self._queue or self._handling is not None:
            self._queue.append(message)
        else:
            self._begin(message)

    def __len__(self) -> int:
        """Messages that wait."""
        return len(self._queue)

    @property
    def full(self) -> bool:
        """Whether the queue is at high water."""
        return len(self._queue) >= self._high_water

    def wants_redelivery(self, generation: int) -> bool:
        """Whether messages of this connection were left out and the queue has room for them again."""
        return self._overflowed == generation and not self._queue

    def _begin(self, message: Delivery) -> bool:
        """Hand a message on; whether it is done with. Most need no task of their own."""
        work = self._handle(message)
        if work is None:
            self._done(message)
            return True
        # Its own task: a handler that was cancelled, whose message has to come again, is not a cancelled link.
        self._handling = asyncio.ensure_future(work)
        self._idle.clear()
        self._handling.add_done_callback(lambda task: self._end(message, task))
        return False

    def _end(self, message: Delivery, task: asyncio.Task[None]) -> None:
        self._handling = None
        self._idle.set()
        if task.cancelled():
            log.warning("the handler of a message on %s was cancelled: it will be delivered again", message.topic)
            self._overflowed = message.generation
        elif task.exception() is None:
            self._done(message)
        self._changed()
        while self._queue and self._handling is None and not self._closing.is_set():
            following = self._queue.popleft()
            if len(self._queue) == self._high_water - 1:
                self._changed()  # several may have come at once, and there is room for another now
            if self._begin(following):
                self._changed()

    async def run(self) -> None:
        """Wait for `close` and for the last handler, which is cancelled where this is."""
        try:
            await self._closing.wait()
            await self._idle.wait()
        except asyncio.CancelledError:
            if self._handling is not None:
                self._handling.cancel()
                await asyncio.wait([self._handling], timeout=1.0)
            raise

    async def close(self, timeout: float) -> None:
        """Start no further handler and give the running one this many seconds to end."""
        self._closing.set()
        if not self._idle.is_set():
            waiting = asyncio.ensure_future(self._idle.wait())
            await asyncio.wait([waiting], timeout=timeout)
            waiting.cancel()
