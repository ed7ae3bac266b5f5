"""When the device looks for a negative by itself, and how many clips it may keep by itself."""

from __future__ import annotations

import random
from collections import deque

HOUR = 3600.0


class Chances:
    """Random moments, and a limit an hour.

    Parameters
    ----------
    mean
        Seconds between two moments on average; exponential above a quarter of it, so that no habit of the household can
        fall in step with it.
    per_hour
        Most clips in any hour.
    rng
        Draws the moments.
    """

    def __init__(self, mean: float, per_hour: int, rng: random.Random) -> None:
        self._mean, self._per_hour, self._rng = mean, per_hour, rng
        self._next: float | None = None
        self._kept: deque[float] = deque()

    def due(self, now: float) -> bool:
        """Whether a moment has come; once for each."""
        if self._next is None:
            self._next = now + self._wait()
        if now < self._next:
            return False
        self._next = now + self._wait()
        return True

    def allowed(self, now: float) -> bool:
        """Whether one more clip may be kept."""
        while self._kept and now - self._kept[0] >= HOUR:
            self._kept.popleft()
        return len(self._kept) < self._per_hour

    def keep(self, now: float) -> None:
        """Count a clip."""
        self._kept.append(now)

    def _wait(self) -> float:
        return self._mean / 4 + self._rng.expovariate(1 / (0.75 * self._mean))
