"""Where time comes from: a clock that is passed in, the machine's own or one that only counts.

Whoever decides something by the time takes a `Clock` and asks no other. `monotonic` is for lengths of time; `now` is
for what is written down and read by people, and may jump when somebody sets it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Says what time it is, and waits; all times are in seconds."""

    def now(self) -> float:
        """Seconds since 1970, as this machine has them."""

    def monotonic(self) -> float:
        """Seconds since a moment of the clock's own; they never go back."""

    def sleep(self, seconds: float) -> None:
        """Hold up this thread; for no time at all where `seconds` is not above 0."""

    def wait(self, news: threading.Condition, seconds: float) -> bool:
        """Hold up this thread, which holds `news`, until it is notified: True, or for so long: False."""

    async def pause(self, seconds: float) -> None:
        """Hold up this task; for no time at all where `seconds` is not above 0."""

    async def wait_set(self, event: asyncio.Event, seconds: float) -> bool:
        """Hold up this task until the event is set: True, or for so long: False."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """As of `Clock`."""
        return time.time()

    def monotonic(self) -> float:
        """As of `Clock`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """As of `Clock`."""
        time.sleep(max(0.0, seconds))

    def wait(self, news: threading.Condition, seconds: float) -> bool:
        """As of `Clock`."""
        return news.wait(seconds)

    async def pause(self, seconds: float) -> None:
        """As of `Clock`."""
        await asyncio.sleep(seconds)

    async def wait_set(self, event: asyncio.Event, seconds: float) -> bool:
        """As of `Clock`."""
        waiting = asyncio.ensure_future(event.wait())
        try:
            return bool((await asyncio.wait([waiting], timeout=seconds))[0])
        finally:
            waiting.cancel()


SYSTEM_CLOCK = SystemClock()


class VirtualClock:
    """A clock that only counts: it stands still but for those who wait, whom it lets go on at once.

    An emulated run has its time, and a test need not wait for a deadline. It does not wait for other threads: what they
    do takes no time of this clock.

    Parameters
    ----------
    at
        What it begins with, both as `now` and as `monotonic`.
    """

    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def now(self) -> float:
        """As of `Clock`."""
        return self.at

    def monotonic(self) -> float:
        """As of `Clock`."""
        return self.at

    def sleep(self, seconds: float) -> None:
        """As of `Clock`."""
        self.at += max(0.0, seconds)

    def wait(self, news: threading.Condition, seconds: float) -> bool:
        """As of `Clock`; nobody can notify while the clock counts, so it is always False."""
        self.sleep(seconds)
        return False

    async def pause(self, seconds: float) -> None:
        """As of `Clock`; other tasks have their turn meanwhile."""
        self.sleep(seconds)
        await asyncio.sleep(0)

    async def wait_set(self, event: asyncio.Event, seconds: float) -> bool:
        """As of `Clock`; other tasks have one turn to set the event before the time counts as over."""
        await asyncio.sleep(0)
        if not event.is_set():
            self.sleep(seconds)
        return event.is_set()
