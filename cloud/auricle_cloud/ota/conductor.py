"""Conducts rollouts in the coordinator: their next steps, and what devices are told; saying it again is harmless."""

from __future__ import annotations

import asyncio
import time

from auricle.wire.messages import Release
from auricle_cloud.link.messenger import Messenger
from auricle_cloud.observing.announcements import Announcements
from auricle_cloud.storage.store import Store

EVERY_SECONDS = 5.0
"""Seconds between looks, when nothing has happened."""
AGAIN_SECONDS = 300.0
"""Seconds after which a device that has not answered is told again."""


class Conductor:
    """All rollouts of one coordinator.

    Parameters
    ----------
    store
        The coordinator's.
    messenger
        Speaks to devices.
    announcements
        Told of every change.
    fleet
        Its name.
    """

    def __init__(self, store: Store, messenger: Messenger, announcements: Announcements, fleet: str) -> None:
        self._store, self._messenger, self._announcements, self._fleet = store, messenger, announcements, fleet
        self._told: dict[tuple[str, str], float] = {}
        """When this process told a device last; another process tells it again."""
        self._looked = -EVERY_SECONDS

    def wake(self) -> None:
        """Look again at the next opportunity: an operator or a device has changed something."""
        self._looked = -EVERY_SECONDS

    def came(self, device: str) -> None:
        """Tell a device that has just come again what it was told before: it may have lost it."""
        for key in [key for key in self._told if key[1] == device]:
            del self._told[key]
        self.wake()

    async def released(self, message: Release, changed: list[tuple[str, str]]) -> None:
        """A device said what it runs, which changed its place in these rollouts."""
        for rollout, state in changed:
            self._announcements.tell("rollout", rollout=rollout, device=message.device, state=state)
        self.wake()

    async def look(self) -> None:
        """Take all steps that are due, and tell devices."""
        if time.monotonic() - self._looked < EVERY_SECONDS:
            return
        self._looked = time.monotonic()
        for rollout in await asyncio.to_thread(self._steps):
            self._announcements.tell("rollout", rollout=rollout)
            self.wake()
        await self._tell()

    def _steps(self) -> list[str]:
        rollouts = self._store.rollouts
        return [name for name in rollouts.in_force() if rollouts.step(name, time.time(), self._fleet)]

    async def _tell(self) -> None:
        now = time.monotonic()
        asked = await asyncio.to_thread(self._store.rollouts.asked)
        keys = {(row.rollout, row.device) for row in asked}
        self._told = {key: at for key, at in self._told.items() if key in keys}
        for row in asked:
            key = (row.rollout, row.device)
            if now - self._told.get(key, -AGAIN_SECONDS) >= AGAIN_SECONDS:
                await self._messenger.direct(row.device, row.rollout, row.kind, row.path, row.identity)
                self._told[key] = now
