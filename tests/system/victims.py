"""A broker, a coordinator and processes of devices, each of which is killed and started again."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from tests.system.child import Child
from tests.system.toy_fleet import ToyFleet, kill

EVERYBODY = ("broker", "coordinator", "devices")


class Victims:
    """What runs, and what of it was killed.

    Parameters
    ----------
    coordinator, devices
        Start a coordinator, and the process of the devices of a group.
    """

    def __init__(
        self,
        fleet: ToyFleet,
        coordinator: Callable[[], Awaitable[Child]],
        devices: Callable[[int], Awaitable[Child]],
    ) -> None:
        self._fleet, self._start, self._begin = fleet, coordinator, devices
        self._groups: list[Child] = []
        self.coordinator: Child
        self.kills: Counter[str] = Counter()

    async def start(self, groups: int) -> None:
        """Start the coordinator, then so many groups of devices."""
        self.coordinator = await self._start()
        self._groups = list(await asyncio.gather(*(self._begin(group) for group in range(groups))))

    async def kill(self, who: str, rng: random.Random) -> None:
        """SIGKILL, and another in its place; of the devices' processes one that is drawn."""
        if who == "broker":
            self._fleet.broker.kill()
            await self._fleet.broker.restart()
        elif who == "coordinator":
            kill(self.coordinator)
            await self.coordinator.end()
            self.coordinator = await self._start()
        else:
            group = rng.randrange(len(self._groups))
            kill(self._groups[group])
            await self._groups[group].end()
            self._groups[group] = await self._begin(group)
        self.kills[who] += 1
