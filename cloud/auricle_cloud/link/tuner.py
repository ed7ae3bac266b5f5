"""Tells devices how much to hear, again and again until they say that it is in effect."""

from __future__ import annotations

import asyncio
import time

from auricle_cloud.link.messenger import Messenger
from auricle_cloud.storage.store import Store

EVERY = 5.0
"""Seconds between looks, when nothing has happened."""
AGAIN = 60.0
"""Seconds after which a device that has not answered is told again."""


class Tuner:
    """The sensitivities of one coordinator's devices.

    Parameters
    ----------
    store
        Holds what operators want, and what devices say.
    messenger
        Speaks to devices.
    """

    def __init__(self, store: Store, messenger: Messenger) -> None:
        self._store, self._messenger = store, messenger
        self._told: dict[str, tuple[int, float]] = {}
        """What a device was told last, and when."""
        self._looked = -EVERY

    def wake(self) -> None:
        """Look again at the next opportunity: an operator or a device has changed something."""
        self._looked = -EVERY

    def came(self, device: str) -> None:
        """Tell a device that has just come again what it was told before: it may have lost it."""
        self._told.pop(device, None)
        self.wake()

    async def look(self) -> None:
        """Tell those that hear otherwise than operators want."""
        now = time.monotonic()
        if now - self._looked < EVERY:
            return
        self._looked = now
        wanted = await asyncio.to_thread(self._store.devices.untuned)
        self._told = {name: told for name, told in self._told.items() if name in wanted}
        for device, step in wanted.items():
            before, at = self._told.get(device, (None, 0.0))
            if before != step or now - at >= AGAIN:
                await self._messenger.tune(device, step)
                self._told[device] = (step, now)
