"""Lights and sounds for what the satellite does: a command that is run at each change of its state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal

from auricle.errors import AuricleError
from auricle.mqtt_link.tasks import start_task
from auricle_edge.listening.events.hook import run_hook

log = logging.getLogger("auricle.events")

AssistState = Literal["idle", "listening", "thinking", "answering", "timer", "error", "muted"]
WAITING_STATES = 8
"""Changes that may wait for a hook that is slow; beyond, the oldest is passed over."""


class StateHook:
    """Runs a command, without a shell, one change after the other.

    `AURICLE_ASSIST_STATE` is the state's name; the environment holds no secret of the service's.

    Parameters
    ----------
    command
        Program and arguments; empty: nothing is run.
    seconds
        How long it may run.
    device
        Name of this device, `AURICLE_DEVICE`.
    """

    def __init__(self, command: Sequence[str], seconds: float, device: str) -> None:
        self._command, self._seconds, self._device = tuple(command), seconds, device
        self._states: asyncio.Queue[AssistState] = asyncio.Queue(WAITING_STATES)
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin."""
        if self._command:
            self._task = start_task(self._serve(), log, "The hook of [assist]")

    def say(self, state: AssistState) -> None:
        """Run it for a state."""
        if self._task is None:
            return
        if self._states.full():
            self._states.get_nowait()
        self._states.put_nowait(state)

    async def close(self) -> None:
        """End what runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _serve(self) -> None:
        while True:
            state = await self._states.get()
            try:
                known = {"AURICLE_ASSIST_STATE": state, "AURICLE_DEVICE": self._device}
                await run_hook(self._command, self._seconds, known)
            except AuricleError as error:
                log.warning("The state %s was not shown: %s", state, error)
