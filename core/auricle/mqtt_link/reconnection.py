"""Connecting again and again: how long to wait, for an answer and for the next attempt, and why the last one failed."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from auricle.errors import AuricleError, BrokerDistrustError
from auricle.mqtt_link.settings import LinkSettings
from auricle.mqtt_link.tasks import give_up

T = TypeVar("T")


async def within(awaitable: Awaitable[T], seconds: float | None) -> T:
    """Return the result, or cancel and raise `asyncio.TimeoutError` after this many seconds (None: never).

    Unlike `asyncio.wait_for` before Python 3.12 it never swallows a cancellation that comes together with the result: a
    link that is stopped while the broker refuses it would otherwise go on connecting for ever.
    """
    waiting = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait([waiting], timeout=seconds)
    except asyncio.CancelledError:
        give_up(waiting)
        raise
    if not waiting.done():
        give_up(waiting)
        raise asyncio.TimeoutError
    return waiting.result()


log = logging.getLogger("auricle.mqtt")

# A connection that did not live this long, in seconds, does not reset the waiting time: two clients with one id would
# otherwise throw each other out as fast as they can.
_STABLE = 10.0
_RIVALS = 3
"""Connections in a row that did not live that long: then it is said what that may come from."""


class Backoff:
    """Full jitter: after n failures in a row a wait between 0 and `first * 2**(n-1)`, at most `cap`, seconds."""

    def __init__(self, first: float, cap: float) -> None:
        self._first = first
        self._cap = cap
        self.failures = 0

    def wait(self, lived: float) -> float:
        """Return the seconds to wait after a connection that lived this many (0 if it was never up)."""
        self.failures = 1 if lived > _STABLE else self.failures + 1
        return random.uniform(0.0, min(self._cap, self._first * 2 ** min(self.failures - 1, 16)))


class Reconnection:
    """A link's connections, one after the other.

    Parameters
    ----------
    settings
        The link's settings.
    """

    def __init__(self, settings: LinkSettings) -> None:
        self._client_id = settings.client_id
        self._backoff = Backoff(settings.backoff_first, settings.backoff_cap)
        self._hurry = False
        self._short = 0
        self.up_since: float | None = None
        """Monotonic second since which the broker has accepted everything; None: it has not."""
        self.last_error: str | None = None
        """Why the last attempt to connect failed or the last connection ended."""
        self._distrust: BrokerDistrustError | None = None
        self._settled = asyncio.Event()
        """Set while it is connected, and while waiting for that is of no use: no trust, or this name is denied."""

    def note_up(self) -> None:
        """The broker has accepted the connection and every subscription."""
        self.up_since = time.monotonic()
        self.settle(None)

    def settle(self, distrust: BrokerDistrustError | None) -> None:
        """Nobody waits any longer for a connection: it is there, was stopped, or is of no use to try."""
        self._distrust = distrust
        self._settled.set()

    async def wait(self, ready: Callable[[], Awaitable[object]]) -> None:
        """Wait for a connection, then for what makes it ready; BrokerDistrustError where to wait is of no use."""
        await self._settled.wait()
        if self._distrust is not None:
            raise BrokerDistrustError(f"{self._distrust}.")
        await ready()

    def hurry(self) -> None:
        """Connect again without a wait once this connection has ended."""
        self._hurry = True

    async def run(self, connect: Callable[[], Awaitable[None]]) -> None:
        """Connect until cancelled.

        Parameters
        ----------
        connect
            Connects and stays until the connection is lost; its error says why.
        """
        while True:
            self.up_since = None
            try:
                await connect()
            except (AuricleError, ConnectionError) as error:
                self.last_error = str(error)
                level = logging.DEBUG if self._backoff.failures else logging.WARNING
                log.log(level, "%s: %s", self._client_id, error)
                self._settled.clear()
                if isinstance(error, BrokerDistrustError):
                    self.settle(error)
            except Exception as error:
                self.last_error = repr(error)
                self._settled.clear()
                log.exception("%s: the connection failed in an unforeseen way", self._client_id)
            lived = 0.0 if self.up_since is None else time.monotonic() - self.up_since
            if self._hurry:
                self._hurry = False
                continue
            self._note_short(lived)
            await asyncio.sleep(self._backoff.wait(lived))

    def _note_short(self, lived: float) -> None:
        """Say once that another client may have this name, where connection after connection was up and soon lost."""
        if self.up_since is None:
            return
        self._short = self._short + 1 if lived <= _STABLE else 0
        if self._short == _RIVALS:
            log.warning(
                "%s: %d connections in a row were lost within seconds. Is another device or program connected under "
                "this name? The broker has one of them at a time.",
                self._client_id,
                _RIVALS,
            )
