"""What no voice has is taken out of the sound: a constant offset, and the rumble and hum below a voice."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from auricle_edge.listening.sound import RATE

CHUNK = 32
"""Samples that are worked out at once, counted from the stream's first, so that cuts change nothing."""


class HighPass:
    """A filter of one pole and one zero: y[n] = a y[n-1] + g (x[n] - x[n-1]), with the gain 1 at high frequencies.

    a = (1 - t) / (1 + t), g = (1 + a) / 2, t = tan(pi cutoff / rate): the bilinear transform of s / (s + w). The first
    sample is taken for what was always there, so that an offset makes no click. Within a chunk of `CHUNK` samples,
    y[i] = a^(i+1) y[-1] + sum_j a^(i-j) g (x[j] - x[j-1]), always summed over the whole chunk with zeros for what has
    not come yet: the same sound gives the same samples, bit for bit, however it is cut.

    Parameters
    ----------
    cutoff
        Hz at which a tone has lost 3 dB, above 0.
    rate
        Of the sound, Hz.
    """

    def __init__(self, cutoff: float, rate: int = RATE) -> None:
        tangent = math.tan(math.pi * cutoff / rate)
        pole = (1 - tangent) / (1 + tangent)
        powers = np.arange(CHUNK)
        self._gain = (1 + pole) / 2
        self._decay = pole ** (powers + 1.0)
        self._whole = float(self._decay[-1])
        behind = powers[:, None] - powers
        self._weights = np.where(behind >= 0, pole ** np.maximum(behind, 0.0), 0.0)
        self._before: float | None = None
        """Sample before the chunk; None before the first of all."""
        self._carried = 0.0
        """Filtered sample before the chunk."""
        self._begun: NDArray[np.float64] = np.zeros(0)
        """Samples of a chunk that is not whole yet."""

    def take(self, samples: NDArray[np.int16]) -> NDArray[np.int16]:
        """Filter the samples (n,) that follow; as many come back."""
        if not len(samples):
            return samples
        waiting: NDArray[np.float64] = np.concatenate((self._begun, samples.astype(np.float64)))
        if self._before is None:
            self._before = float(waiting[0])
        steps = np.zeros(-(-len(waiting) // CHUNK) * CHUNK)
        steps[: len(waiting)] = np.diff(waiting, prepend=self._before) * self._gain
        filtered, carried = self._chunks(steps.reshape(-1, CHUNK))
        whole = len(waiting) // CHUNK
        if whole:
            self._before, self._carried = float(waiting[whole * CHUNK - 1]), carried[whole]
        given, self._begun = len(self._begun), waiting[whole * CHUNK :]
        found: NDArray[np.int16] = np.clip(np.rint(filtered[given : len(waiting)]), -32_768, 32_767).astype(np.int16)
        return found

    def _chunks(self, steps: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[float]]:
        """Filtered samples of chunks (C, CHUNK), in a row, and what is carried into each of them and out of the last.

        Each sum is over one row of a fixed length, so how many chunks are worked out at once changes nothing.
        """
        alone = (steps[:, None, :] * self._weights).sum(axis=2)
        carried = [self._carried]
        for last in alone[:, -1].tolist():
            carried.append(last + self._whole * carried[-1])
        filtered = alone + self._decay * np.array(carried[:-1])[:, None]
        return filtered.ravel(), carried
