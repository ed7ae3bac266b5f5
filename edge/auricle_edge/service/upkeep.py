"""What a running device looks after: labels, the watchdog, its memory, and its reports of hearing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import numpy as np

from auricle.errors import AuricleError
from auricle_edge.board.memory import keep_start, rest
from auricle_edge.fleet.agent import Agent
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.listening.sound import Event
from auricle_edge.service.parts import Parts
from auricle_edge.service.status import summary
from auricle_edge.service.systemd import Notifier, Pulse

log = logging.getLogger("auricle.edge")

TICK_SECONDS = 0.5
"""Seconds between two looks after labels, the watchdog and the memory."""
SETTLED_SECONDS = 5.0
"""Seconds after the start, or after a round, from which on memory that only they needed is given back."""
SILENCE_SECONDS = 30.0
"""Seconds without a sign of sound, though it is not muted, after which the device is not well."""


class Upkeep:
    """The work that comes back several times a second.

    Parameters
    ----------
    parts
        What is looked after.
    notifier
        Tells systemd.
    heard
        Told of a window after a wake word that is closed because no sound comes.
    """

    def __init__(self, parts: Parts, notifier: Notifier, heard: Callable[[Event], None]) -> None:
        self._parts, self._notifier, self._heard, self._pulse = parts, notifier, heard, Pulse()
        self.trained: float | None = None
        """When a round or a measurement was last seen, until its memory was given back."""

    async def look_after(self) -> None:
        """Labels, the watchdog, what systemd shows; until cancelled."""
        parts, loop = self._parts, asyncio.get_running_loop()
        fed, failures = 0.0, parts.listener.failures
        task = parts.pack.manifest.task
        silence = np.zeros((1, *task.input_shape), np.float32)
        await loop.run_in_executor(parts.labelling, parts.hearing.now.candidate.recognise, silence)
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for done in await loop.run_in_executor(parts.labelling, parts.labeller.tick):
                log.info("%s", done.said)
            state, now = parts.capture.state, time.monotonic()
            self._without_sound(state, now)
            well = self._pulse.beats(state.last_progress, sum(state.restarts.values()), state.muted, now)
            if well and now - fed >= (self._notifier.interval or 0) / 2:
                self._notifier.alive()
                fed = now
            self._notifier.status(summary(parts))
            judges, failures = parts.listener.failures == failures, parts.listener.failures
            parts.updates.watch(judges and hears(state, now) and parts.reached)

    def _without_sound(self, state: CaptureState, now: float) -> None:
        """Close the window after a wake word where no sound comes in which a command could be heard."""
        parts = self._parts
        silent = state.last_progress is None or now - state.last_progress > parts.detect.window
        if parts.detector.state == "awake" and (state.muted or silent):
            closed = parts.detector.sleep()
            if closed is not None:
                self._heard(closed)

    async def give_back(self) -> None:
        """What only the start and the rounds needed of memory; until cancelled."""
        parts, loop = self._parts, asyncio.get_running_loop()
        await asyncio.sleep(SETTLED_SECONDS)
        await self._forget_sound()
        await loop.run_in_executor(parts.labelling, keep_start)
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if parts.works:
                self.trained = time.monotonic()
            elif self.trained is not None and time.monotonic() - self.trained >= SETTLED_SECONDS:
                self.trained = None
                await self._forget_sound()
                await loop.run_in_executor(parts.training, rest, parts.choice.runtime)

    async def _forget_sound(self) -> None:
        """What a round learns from is read again before the next."""
        if self._parts.agent is not None:
            await self._parts.agent.rest()
        self._parts.pack.forget_stretches()

    async def report_hearing(self, agent: Agent) -> None:
        """Tell the coordinator how well the device hears, where its owner has allowed it; until cancelled."""
        reporter = self._parts.reporter
        while True:
            await asyncio.sleep(TICK_SECONDS)
            reporter.look(agent.base)
            if not reporter.due or not self._parts.reached:
                continue
            try:
                ended = await asyncio.get_running_loop().run_in_executor(self._parts.labelling, reporter.end)
                if ended is not None:
                    await agent.say_hearing(*ended)
            except AuricleError as error:
                log.warning("A report of hearing was not sent: %s", error)


def hears(state: CaptureState, now: float) -> bool:
    """Whether sound comes, unless it is not wanted."""
    return state.muted or (state.last_progress is not None and now - state.last_progress < SILENCE_SECONDS)
