"""The newest sound of a stream: its samples, from where on none are missing, and when they came."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from auricle_edge.listening.detect.hops import Ring
from auricle_edge.listening.sound import RATE, Block

_TIMED = 2 * RATE
"""Samples of which it is known when they came."""


class NewestSound:
    """Samples by number; nothing is heard across a gap between blocks.

    Parameters
    ----------
    samples
        How many are kept.
    """

    def __init__(self, samples: int) -> None:
        self.ring = Ring(samples)
        self.begun = 0
        """The first sample after the newest gap."""
        self._arrivals: deque[tuple[int, float]] = deque()

    def has_gap(self, block: Block) -> bool:
        """Whether samples are missing between what came and a block; not before the first."""
        return bool(self._arrivals) and block.start > self.ring.newest

    def take(self, block: Block) -> tuple[int, bool]:
        """Take the samples of a block that are new.

        Returns
        -------
        tuple
            How many were new, and whether everything begins with them: after a gap, and at first.
        """
        newest, gap = self.ring.newest, self.has_gap(block)
        begins = gap or not self._arrivals
        if gap:
            self.ring.skip(block.start - newest)
        elif begins:
            self.ring.begin(block.start)
        if begins:
            self._arrivals.clear()
            self.begun = block.start
        samples = block.samples if begins else block.samples[newest - block.start :]
        self.ring.append(samples)
        self._arrivals.append((self.ring.newest, block.arrived))
        while self._arrivals[0][0] < self.ring.newest - _TIMED:
            self._arrivals.popleft()
        return len(samples), begins

    def last(self, count: int, end: int) -> NDArray[np.int16]:
        """The samples before `end`, so many or those since the gap; DataError where some are not held any more."""
        return self.ring.read(max(self.begun, end - count), end)

    def arrival(self, sample: int) -> float:
        """When a sample came: a block's time, less what follows in it."""
        end, arrived = next((arrival for arrival in self._arrivals if arrival[0] >= sample), self._arrivals[-1])
        return arrived - (end - sample) / RATE

    @property
    def arrived(self) -> float | None:
        """When the newest block came, as `Block.arrived`; None before there was one."""
        return self._arrivals[-1][1] if self._arrivals else None
