"""What the coordinator tells those who watch it live: a bounded stream of small events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

WAITING_EVENTS = 256
"""Events kept for a listener that is slow; then its oldest are dropped."""


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    kind: str
    """state (a round changed it), update (one was counted or refused), device (presence or standing), model, alarm,
    progress (detection), plan, rollout, hearing."""
    content: dict[str, object]


class Announcements:
    """Hands every event to all who listen."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[Event]] = set()

    def tell(self, kind: str, **content: object) -> None:
        """Announce an event; never waits. Call it on the event loop."""
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(Event(kind, content))

    @contextmanager
    def listening(self) -> Iterator[AsyncIterator[Event]]:
        """Everything that is announced from now on."""
        queue: asyncio.Queue[Event] = asyncio.Queue(WAITING_EVENTS)
        self._listeners.add(queue)
        try:
            yield _all(queue)
        finally:
            self._listeners.discard(queue)


async def _all(queue: asyncio.Queue[Event]) -> AsyncIterator[Event]:
    while True:
        yield await queue.get()
