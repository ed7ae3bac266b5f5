"""Words that were almost heard: runs of hops in which a keyword came near its threshold and was not accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class NearMiss:
    """A keyword that was almost heard."""

    word: str
    score: float
    """Its smoothed posterior where it came nearest to the threshold."""
    start: int
    """First sample of the window that was judged there, as in `Detection`."""
    end: int


class NearWatch:
    """Follows a detector hop by hop; the same sound gives the same near-misses however it was cut into blocks.

    A near-miss is a run of hops in which the closeness (smoothed posterior over threshold) of the keyword that is
    closest stays at `share` or more, and in which no keyword was accepted. What follows an acceptance within the
    refractory time, or before everything fell below `share`, is the end of the same word and counts for nothing.

    Parameters
    ----------
    labels
        L labels.
    share
        Of the threshold, above 0 and at most 1.
    rest
        Hops of the refractory time.
    found
        Called with each near-miss when its run is over, by the thread that listens: it must not block.
    """

    def __init__(self, labels: tuple[str, ...], share: float, rest: int, found: Callable[[NearMiss], None]) -> None:
        self._labels, self._share, self._rest, self._found = labels, share, rest, found
        self.reset()

    def reset(self) -> None:
        """Forget everything: there is a gap."""
        self._best: NearMiss | None = None
        self._closest = 0.0
        self._accepted = False
        self._left = 0

    def hop(
        self, window: tuple[int, int], smoothed: NDArray[np.float64], closeness: NDArray[np.float64], accepted: bool
    ) -> None:
        """Take a hop: its window, the averages (L,), their shares of the thresholds (L,), whether one was accepted."""
        self._left = max(0, self._left - 1)
        if accepted:
            self._best, self._accepted, self._left = None, True, self._rest
            return
        label = int(np.argmax(closeness))
        if closeness[label] < self._share:
            self._end()
        elif not self._accepted and (self._best is None or closeness[label] > self._closest):
            self._closest = float(closeness[label])
            self._best = NearMiss(self._labels[label], float(smoothed[label]), *window)

    def _end(self) -> None:
        """A run is over."""
        best, self._best, self._closest = self._best, None, 0.0
        self._accepted = self._accepted and self._left > 0
        if best is not None:
            self._found(best)
