"""Work on many messages at a time: those of one device in their order, all of them in bounded number."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from auricle.mqtt_link.reconnection import within
from auricle.mqtt_link.tasks import start_task

log = logging.getLogger("auricle.cloud")

Work = Callable[[], Awaitable[None]]


class KeyedQueue:
    """One lane a name; each is emptied in order while others are.

    Parameters
    ----------
    most
        Pieces of work taken in at a time, in all lanes together; more of them wait.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._turns: deque[asyncio.Future[None]] = deque()
        self._lanes: dict[str, deque[Work]] = {}
        self._working: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Lanes in which work waits or is done."""
        return len(self._lanes)

    def put(self, name: str, work: Work) -> Awaitable[None] | None:
        """Take in work, which is done later; where there is no room, what waits for it and then does."""
        if self._free > 0:
            self._free -= 1
            self._enter(name, work)
            return None
        return self._wait_and_enter(name, work)

    async def _wait_and_enter(self, name: str, work: Work) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had its turn in the same moment
                self._release()
            raise
        self._enter(name, work)

    def _release(self) -> None:
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _enter(self, name: str, work: Work) -> None:
        lane = self._lanes.get(name)
        if lane is not None:
            lane.append(work)
            return
        self._lanes[name] = deque([work])
        task = start_task(self._empty(name), log, f"Work for {name}")
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _empty(self, name: str) -> None:
        lane = self._lanes[name]
        while lane:
            work = lane.popleft()
            try:
                await work()
            except Exception:
                log.exception("a message of %s failed in an unforeseen way", name)
            finally:
                self._release()
        del self._lanes[name]

    async def drain(self, timeout: float) -> None:
        """Wait until everything taken in is done, or give it up after so many seconds."""
        working = list(self._working)
        try:
            await within(asyncio.gather(*working, return_exceptions=True), timeout)
        except asyncio.TimeoutError:
            log.warning("%d messages were given up: their devices send again", len(self._working))
            for task in working:
                task.cancel()
