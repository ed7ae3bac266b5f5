"""The last seconds of sound, in memory and nowhere else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_edge.listening.sound import RATE


class Ring:
    """Sound by the number of its samples; what was lost in a gap is silence.

    Parameters
    ----------
    size
        Samples that are kept.
    """

    def __init__(self, size: int) -> None:
        self._samples = np.zeros(size, np.int16)
        self.newest = 0
        """Number of the first sample that has not come yet."""
        self._first = 0

    @property
    def oldest(self) -> int:
        """Number of the first sample that is still held."""
        return max(self._first, self.newest - len(self._samples))

    def begin(self, start: int) -> None:
        """Forget everything: the next sample is this one."""
        self._samples[:] = 0
        self.newest = self._first = start

    def append(self, samples: NDArray[np.int16]) -> None:
        """Take samples (n,) that follow the newest."""
        size = len(self._samples)
        self.newest += len(samples)
        kept = samples[-size:]
        place = (self.newest - len(kept)) % size
        head = min(len(kept), size - place)
        self._samples[place : place + head] = kept[:head]
        self._samples[: len(kept) - head] = kept[head:]

    def skip(self, count: int) -> None:
        """Let so many samples pass that nobody heard."""
        kept = min(count, len(self._samples))
        self.newest += count - kept
        self.append(np.zeros(kept, np.int16))

    def read(self, start: int, end: int) -> NDArray[np.int16]:
        """A copy of the samples from `start` to before `end`.

        Raises
        ------
        DataError
            They are not all held: too old, or still to come.
        """
        if not self.oldest <= start <= end <= self.newest:
            seconds = (self.newest - self.oldest) / RATE
            raise DataError(
                f"The samples {start} to {end} are not in memory, which holds the last {seconds:.1f} seconds, "
                f"{self.oldest} to {self.newest}: ask sooner, or set a larger ring in [detect]."
            )
        return self._samples[np.arange(start, end) % len(self._samples)]
