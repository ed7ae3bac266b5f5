"""What happens, live: announcements as server-sent events, for as many listeners as there is room for."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from aiohttp import web

from auricle.mqtt_link.reconnection import within
from auricle.mqtt_link.tasks import give_up
from auricle_cloud.api.problems import RefusedError
from auricle_cloud.observing.announcements import Announcements, Event

WRITE_SECONDS = 30.0
"""A listener that takes nothing for so long is dropped."""


class EventStreams:
    """All open streams of one server.

    Parameters
    ----------
    announcements
        What is told.
    most, most_each
        Streams at one time, in all and of one token.
    heartbeat
        Seconds of silence after which a comment is sent, so that both ends notice a dead connection.
    """

    def __init__(
        self, announcements: Announcements, *, most: int = 64, most_each: int = 8, heartbeat: float = 15.0
    ) -> None:
        self._announcements, self._most, self._most_each, self._heartbeat = announcements, most, most_each, heartbeat
        self._open: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    async def stream(
        self, request: web.Request, name: str, allowed: Callable[[], Awaitable[bool]]
    ) -> web.StreamResponse:
        """Send events until the listener goes, its token is revoked, or the server stops.

        Parameters
        ----------
        request
            Of the listener.
        name
            Of its token.
        allowed
            Asked at every heartbeat whether it may still listen.

        Raises
        ------
        RefusedError
            429: there are too many streams.
        """
        if self._open.total() >= self._most or self._open[name] >= self._most_each:
            raise RefusedError(429, f"There are too many open streams: close one of {name}.", {"Retry-After": "5"})
        self._open[name] += 1
        try:
            response = web.StreamResponse(
                headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store"}
            )
            with self._announcements.listening() as events:
                await response.prepare(request)
                task = asyncio.ensure_future(self._send(response, events, allowed))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                with contextlib.suppress(asyncio.TimeoutError, asyncio.CancelledError, ConnectionError):
                    await task
            return response
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

    async def _send(
        self, response: web.StreamResponse, events: AsyncIterator[Event], allowed: Callable[[], Awaitable[bool]]
    ) -> None:
        await response.write(b": listening\n\n")
        waiting = asyncio.ensure_future(_next(events))
        try:
            while True:
                await asyncio.wait([waiting], timeout=self._heartbeat)
                if waiting.done():
                    await within(response.write(encode(waiting.result())), WRITE_SECONDS)
                    waiting = asyncio.ensure_future(_next(events))
                elif not await allowed():
                    return
                else:
                    await within(response.write(b": still here\n\n"), WRITE_SECONDS)
        finally:
            give_up(waiting)

    async def close(self) -> None:
        """End all streams."""
        for task in list(self._tasks):
            task.cancel()


async def _next(events: AsyncIterator[Event]) -> Event:
    return await events.__anext__()


def encode(event: Event) -> bytes:
    """An event as it travels."""
    return b"event: %s\ndata: %s\n\n" % (event.kind.encode(), msgspec.json.encode(event.content))
