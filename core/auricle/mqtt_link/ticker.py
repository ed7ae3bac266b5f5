"""One timer for all links of an event loop: a thousand of them wake it once a second, and not a thousand times."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable

EVERY_SECONDS = 1.0
"""Seconds between two ticks."""

Tick = Callable[[], None]


class Ticker:
    """Calls everybody who asked once in `EVERY_SECONDS` seconds, while there is anybody.

    Parameters
    ----------
    loop
        On which it calls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._ticks: dict[object, Tick] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many are called."""
        return len(self._ticks)

    def add(self, who: object, tick: Tick) -> None:
        """Call `tick` from now on; it must not raise."""
        self._ticks[who] = tick
        if self._timer is None:
            self._timer = self._later()

    def remove(self, who: object) -> None:
        """Call it no more."""
        self._ticks.pop(who, None)
        if not self._ticks and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = self._later()
        for who, tick in list(self._ticks.items()):
            if who in self._ticks:  # one before may have ended it
                tick()

    def _later(self) -> asyncio.TimerHandle | None:
        loop = self._loop()  # a hard reference would keep it for ever in the table below
        return None if loop is None else loop.call_later(EVERY_SECONDS, self._tick)


_TICKERS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Ticker] = weakref.WeakKeyDictionary()


def ticker_of(loop: asyncio.AbstractEventLoop) -> Ticker:
    """The timer that all links of a loop share."""
    ticker = _TICKERS.get(loop)
    if ticker is None:
        ticker = _TICKERS[loop] = Ticker(loop)
    return ticker
