"""The gate of a running agent: looked at every few seconds, heard by the round that trains, told to the coordinator."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

import numpy as np

from auricle.errors import AuricleError
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.agent_context import Declined

log = logging.getLogger("auricle.edge")

OPEN = Decision("train", "This device has no gate.")
PRIVATE = frozenset({"speech"})
"""Causes that pause a round and that nobody outside is told: who speaks when is not the fleet's business."""


class RoundControl:
    """What the training thread asks between two batches: go on, wait, or stop?

    Parameters
    ----------
    decision
        The gate's last one.
    seconds
        From now, within which an update counts: no longer does a round wait.
    clock
        Whom it asks for the time.
    """

    def __init__(self, decision: Decision, seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._decision, self._stopped = decision, False
        self.flag = np.array([decision.gate != "train"], np.int32)
        """(1,): 0 while a call gives False at once; training looks at it between two batches."""
        self._clock, self._deadline = clock, clock.monotonic() + seconds
        self._news = threading.Condition()
        self.waited = 0.0
        """Seconds spent waiting."""

    def heed(self, decision: Decision) -> None:
        """The gate says something else now."""
        with self._news:
            self._decision = decision
            self._mark()
            self._news.notify_all()

    def stop(self) -> None:
        """The round is void."""
        with self._news:
            self._stopped = True
            self._mark()
            self._news.notify_all()

    def _mark(self) -> None:
        self.flag[0] = self._stopped or self._decision.gate != "train"

    def __call__(self) -> bool:
        """Whether the round was stopped; returns only when the gate is open.

        Raises
        ------
        Declined
            The gate closed for longer, or the round's time ran out while it waited.
        """
        with self._news:
            began = self._clock.monotonic()
            while self._decision.gate == "wait" and not self._stopped:
                left = self._deadline - self._clock.monotonic()
                if left <= 0:
                    raise Declined(f"The round's time ran out while it waited. {_outside(self._decision)}".strip())
                self._clock.wait(self._news, left)
            self.waited += self._clock.monotonic() - began
            if self._decision.gate == "decline" and not self._stopped:
                raise Declined(self._decision.reason)
            return self._stopped


def _outside(decision: Decision) -> str:
    return "" if decision.cause in PRIVATE else decision.reason


class GateWatch:
    """Looks at the gate.

    Parameters
    ----------
    gate
        Reads sensors and decides; called in a thread. None: always open, and nothing is looked at.
    every
        Seconds between two looks.
    changed
        Awaited after another state of the gate, or another cause, is to be told; it may take its time.
    clock
        Whom it and its rounds ask for the time.
    """

    def __init__(
        self,
        gate: Callable[[], Decision] | None,
        every: float,
        changed: Callable[[], Awaitable[None]],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._gate, self._every, self._changed, self._clock = gate, every, changed, clock
        self.decision = OPEN
        """The newest one."""
        self.told = OPEN
        """What the coordinator hears: the newest one but for speech."""
        self.control: RoundControl | None = None
        """The round that trains."""
        self._news = asyncio.Event()
        self._looking = asyncio.Lock()

    async def look(self) -> Decision:
        """Look now, and tell the round; the coordinator hears of it in its time, when it matters to it."""
        if self._gate is None:
            return self.decision
        async with self._looking:
            try:
                decision = await asyncio.to_thread(self._gate)
            except AuricleError as error:
                decision = Decision("wait", str(error), "gate")
            self._take(decision)
        return decision

    def _take(self, decision: Decision) -> None:
        self.decision = decision
        if self.control is not None:
            self.control.heed(decision)
        if decision.cause not in PRIVATE:
            before, self.told = self.told, decision
            if (before.gate, before.cause) != (decision.gate, decision.cause):
                log.info("gate: %s. %s", decision.gate, decision.reason)
                self._news.set()

    async def run(self) -> None:
        """Look again and again, also while nobody can be told."""
        if self._gate is None:
            return
        telling = asyncio.create_task(self._tell())
        try:
            while not telling.done():
                await self._clock.pause(self._every)
                await self.look()
            telling.result()
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._changed()

    def begin(self, seconds: float) -> RoundControl:
        """A round begins that has so many seconds; the gate decides over it until the next one."""
        self.control = RoundControl(self.decision, seconds, self._clock)
        return self.control
