"""Which of a source's channels is listened to: the chosen one, the mean of two, or the louder of two opposite ones."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

OPPOSITE_CORRELATION, AGREED_CORRELATION = -0.9, -0.5
"""Correlation below which two channels are opposite, and from which they no longer are."""
FLOOR_POWER = 10.0
"""Power, in steps of int16 squared, below which two channels say nothing of each other."""
MEMORY_SECONDS = 1.0
"""Seconds over which the correlation is taken, and which it takes until a person is told."""


class Downmix:
    """Interleaved channels into one.

    Two channels are averaged, unless they are opposite: a cable or a card that inverts one of them leaves nothing of
    their mean. The correlation of the two, c = E[ab] / sqrt(E[a^2] E[b^2]) without their offsets, says so, and then the
    louder one is taken. More than two channels are those of an array (processed, raw, playback): never averaged, the
    first is taken.

    Parameters
    ----------
    rate
        Of the source, Hz.
    channels
        It gives.
    channel
        Number of the one to take, from 0; None leaves the choice to this. One that the source does not have takes its
        last.
    """

    def __init__(self, rate: int, channels: int, channel: int | None) -> None:
        self.rate, self.channels, self._wanted = rate, channels, channel
        self._pair = channels == 2 and channel is None
        self._fixed = min(channel or 0, channels - 1)
        self._powers = np.zeros(3)
        """Of the first, of the second, and of their product; exponentially forgotten."""
        self._evidence = 0.0
        self._opposite = False
        self.louder = 0
        """Number of the louder of two opposite channels; it changes where the other has twice the power."""

    def take(self, native: NDArray[np.int16]) -> NDArray[np.int16] | NDArray[np.float32]:
        """One channel (n,) of sound (n, channels); of two that agree the mean, as float32 and not rounded."""
        if not self._pair:
            return native[:, self._fixed]
        self._compare(native)
        if self._opposite:
            return native[:, self.louder]
        mean: NDArray[np.float32] = native.mean(axis=1, dtype=np.float32)
        return mean

    def note(self, device: str) -> str | None:
        """What to know of the channels of a device of this name; None where there is nothing to say."""
        last = self.channels - 1
        if self._wanted is not None and self._wanted > last:
            has = f"0 to {last}" if last else "0 alone"
            return f"{device} has no channel {self._wanted}, but {has}: channel {last} is listened to."
        if self.channels > 2 and self._wanted is None:
            return (
                f"{device} has {self.channels} channels, 0 to {last}: channel 0 is listened to. Write channel = 0 to "
                f"{last} in [capture] for the one that is meant."
            )
        if self._opposite and self._evidence >= MEMORY_SECONDS:
            return (
                f"The two channels of {device} are opposite to each other, and their mean is next to silence: channel "
                f"{self.louder}, the louder one, is listened to. Write channel = {self.louder} in [capture] to keep it."
            )
        return None

    def _compare(self, native: NDArray[np.int16]) -> None:
        """Take what two channels say of each other into account; silence says nothing."""
        pair = native.astype(np.float64) - native.mean(axis=0)
        first, second = pair.T
        powers = np.array([first @ first, second @ second, first @ second]) / max(1, len(native))
        if powers[:2].max() < FLOOR_POWER:
            return
        seconds = len(native) / self.rate
        share = 1 - math.exp(-seconds / MEMORY_SECONDS) if self._evidence else 1.0
        self._powers += share * (powers - self._powers)
        self._evidence += seconds
        both = math.sqrt(self._powers[0] * self._powers[1])
        correlation = self._powers[2] / both if both else 0.0
        before, self._opposite = (
            self._opposite,
            correlation < (AGREED_CORRELATION if self._opposite else OPPOSITE_CORRELATION),
        )
        if not before or self._powers[1 - self.louder] > 2 * self._powers[self.louder]:
            self.louder = int(self._powers[1] > self._powers[0])
        if not self._opposite:
            self._evidence = min(self._evidence, seconds)
