"""What a device gives into what the listener hears: 16 kHz, mono, int16; and how loud it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError
from auricle_edge.listening.capture.frames import Sound
from auricle_edge.listening.capture.high_pass import HighPass
from auricle_edge.listening.sound import RATE

if TYPE_CHECKING:
    from soxr import ResampleStream


class Conversion:
    """A stream of one rate and number of channels; one channel or their mean, resampled by soxr (HQ), high-passed.

    Parameters
    ----------
    rate
        Of the device, Hz.
    channels
        It gives.
    channel
        Number of the one to take; None takes the mean. A number the device does not have takes its last.
    high_pass
        Hz below which nothing is let through; 0: all is.
    """

    def __init__(self, rate: int, channels: int, channel: int | None, high_pass: float = 0.0) -> None:
        self.rate, self.channels = rate, channels
        self._channel = None if channel is None else min(channel, channels - 1)
        self._stream = _resampler(rate) if rate != RATE else None
        self._filter = HighPass(high_pass) if high_pass else None

    def take(self, data: bytes) -> NDArray[np.int16]:
        """Convert interleaved int16; what comes back may lag behind by the resampler's filter."""
        native = np.frombuffer(data, "<i2").reshape(-1, self.channels)
        if self.channels > 1 and self._channel is None:
            mono = np.rint(native.mean(axis=1, dtype=np.float32)).astype(np.int16)
        else:
            mono = native[:, self._channel or 0].astype(np.int16)
        return self._filtered(mono if self._stream is None else self._resampled(mono, last=False))

    def rest(self) -> NDArray[np.int16]:
        """What is left in the filter at the end."""
        empty = np.zeros(0, np.int16)
        return self._filtered(empty if self._stream is None else self._resampled(empty, last=True))

    def _filtered(self, samples: NDArray[np.int16]) -> NDArray[np.int16]:
        return samples if self._filter is None else self._filter.take(samples)

    def _resampled(self, mono: NDArray[np.int16], last: bool) -> NDArray[np.int16]:
        assert self._stream is not None
        converted: NDArray[np.int16] = self._stream.resample_chunk(mono, last=last)
        return converted


def _resampler(rate: int) -> ResampleStream:
    try:
        from soxr import ResampleStream
    except ImportError as error:
        raise SettingsError(f'Sound at {rate} Hz needs soxr: pip install "auricle[mic]".') from error
    return ResampleStream(rate, RATE, 1, dtype="int16", quality="HQ")


class Meter:
    """Level over the last half second, and the share of samples at full scale over the last ten seconds."""

    def __init__(self) -> None:
        self._power = 0.0
        self.clipping = 0.0

    def take(self, frame: Sound) -> None:
        """Count a frame in."""
        samples = np.frombuffer(frame.data, "<i2").astype(np.float32)
        seconds = frame.size / frame.rate
        self._power += (1 - math.exp(-seconds / 0.5)) * (float(np.mean(np.square(samples))) / 32768**2 - self._power)
        share = float(np.mean((samples >= 32767) | (samples <= -32768)))
        self.clipping += (1 - math.exp(-seconds / 10)) * (share - self.clipping)

    @property
    def level_dbfs(self) -> float:
        """Decibels below full scale (of a square wave); at least -120."""
        return round(max(-120.0, 10 * math.log10(max(self._power, 1e-12))), 1)
