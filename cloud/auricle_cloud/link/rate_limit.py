"""How often somebody may do something: a token bucket for each name, in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable


class RateLimit:
    """Token buckets by name.

    Parameters
    ----------
    rate
        Tokens a second that flow into each bucket.
    burst
        Tokens a full bucket holds.
    names
        Buckets kept; beyond that the one that was longest unused is forgotten, and would be full again.
    clock
        Seconds, rising.
    """

    def __init__(
        self, rate: float, burst: float, *, names: int = 100_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._names, self._clock = rate, burst, names, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, tokens: float = 1.0) -> bool:
        """Take tokens out of a bucket; False, and nothing is taken, when they are not there."""
        now = self._clock()
        level, then = self._buckets.pop(name, (self._burst, now))
        level = min(self._burst, level + (now - then) * self._rate)
        allowed = tokens <= level
        self._buckets[name] = (level - tokens if allowed else level, now)
        if len(self._buckets) > self._names:
            self._buckets.popitem(last=False)
        return allowed
