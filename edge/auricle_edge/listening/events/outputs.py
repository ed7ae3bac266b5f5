"""Hand events to every output; one that fails or hangs holds up neither the listening nor the others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from auricle.errors import AuricleError
from auricle_edge.listening.sound import Event

log = logging.getLogger("auricle.events")


class Output(Protocol):
    """Somebody who is told what was heard."""

    @property
    def name(self) -> str:
        """For messages and counts."""

    async def open(self) -> None:
        """Get ready; AuricleError when its settings cannot work."""

    async def deliver(self, event: Event) -> None:
        """Pass one on; AuricleError or OSError when that failed."""

    async def close(self) -> None:
        """Let go of everything."""


@dataclass
class Delivered:
    """What became of the events for one output."""

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    """Those that found its queue full."""


class Outputs:
    """All outputs of a device, each with a bounded queue and a task of its own.

    Parameters
    ----------
    outputs
        Who is told.
    waiting
        Events that may wait for one of them.
    """

    def __init__(self, outputs: Sequence[Output], waiting: int = 64) -> None:
        self._outputs = tuple(outputs)
        self.delivered = {output.name: Delivered() for output in outputs}
        self._queues: dict[str, asyncio.Queue[Event]] = {o.name: asyncio.Queue(waiting) for o in outputs}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Open every output; AuricleError when one cannot work."""
        self._loop = asyncio.get_running_loop()
        for output in self._outputs:
            await output.open()
            self._tasks.append(asyncio.create_task(self._serve(output)))

    def emit(self, event: Event) -> None:
        """Queue an event for every output; from any thread, never blocks."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it everybody who would listen
                loop.call_soon_threadsafe(self._spread, event)

    async def stop(self) -> None:
        """End the tasks and close every output."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for output in self._outputs:
            await output.close()

    def _spread(self, event: Event) -> None:
        for name, queue in self._queues.items():
            if queue.full():
                queue.get_nowait()
                self.delivered[name].dropped += 1
            queue.put_nowait(event)

    async def _serve(self, output: Output) -> None:
        queue, counts = self._queues[output.name], self.delivered[output.name]
        while True:
            event = await queue.get()
            try:
                await output.deliver(event)
                counts.sent += 1
            except (AuricleError, OSError, asyncio.TimeoutError) as error:
                counts.failed += 1
                log.warning("%s was not told of an event: %s", output.name, error or "it took too long")
