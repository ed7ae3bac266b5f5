"""The bounded queue of received messages and the one worker that hands them on, in order."""

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
        Awaited for one message after the other. When it returns, the message is done with.
    done
        Called with a message that is done with; not called for one whose handling was cancelled.
    changed
        Called after each message, and when there is room for another.
    """

    def __init__(
        self,
        high_water: int,
        handle: Callable[[Delivery], Coroutine[None, None, None]],
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
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._overflowed = 0

    def put(self, message: Delivery) -> None:
        """Take a message in; at the hard limit, and from then on, leave it to be delivered on a new connection."""
        if self._closed or message.generation == self._overflowed:
            self._counters.overflowed += 1
            return
        if len(self._queue) >= self._high_water * _HARD_LIMIT:
            self._overflowed = message.generation
            self._counters.overflowed += 1
            return
        self._queue.append(message)
        self._filled.set()

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

    async def run(self) -> None:
        """Handle messages until `close`."""
        while not self._closed:
            await self._filled.wait()
            if self._closed:
                return
            message = self._queue.popleft()
            if not self._queue:
                self._filled.clear()
            if len(self._queue) == self._high_water - 1:
                self._changed()  # several may have come at once, and there is room for another now
            await self._handle_one(message)
            self._changed()

    async def _handle_one(self, message: Delivery) -> None:
        # Its own task: a handler that was cancelled, whose message has to come again, is not a cancelled worker.
        handling = asyncio.ensure_future(self._handle(message))
        self._idle.clear()
        try:
            await asyncio.wait([handling])
        except asyncio.CancelledError:
            handling.cancel()
            await asyncio.wait([handling], timeout=1.0)
            raise
        finally:
            self._idle.set()
        if handling.cancelled():
            log.warning("the handler of a message on %s was cancelled: it will be delivered again", message.topic)
            self._overflowed = message.generation
            return
        handling.result()
        self._done(message)

    async def close(self, timeout: float) -> None:
        """Start no further handler and give the running one this many seconds to end."""
        self._closed = True
        self._filled.set()
        if not self._idle.is_set():
            waiting = asyncio.ensure_future(self._idle.wait())
            await asyncio.wait([waiting], timeout=timeout)
            waiting.cancel()
