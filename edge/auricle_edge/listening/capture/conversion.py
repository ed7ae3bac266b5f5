"""What a device gives into what the listener hears: 16 kHz, mono, int16, high-passed; and how loud it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError, extra_command
from auricle_edge.listening.capture.channels import Downmix
from auricle_edge.listening.capture.echo import EchoCanceller
from auricle_edge.listening.capture.frames import Sound
from auricle_edge.listening.sound import RATE

if TYPE_CHECKING:
    from soxr import ResampleStream


class Conversion:
    """A stream of one rate and number of channels; one of them (`Downmix`), resampled by soxr (HQ), high-passed.

    Before the high pass the echo of a reference is taken out, where there is one among the channels.

    Parameters
    ----------
    rate
        Of the device, Hz.
    channels
        It gives.
    channel
        As in `Downmix`.
    high_pass
        Hz below which nothing is let through; 0: all is.
    reference
        The channel whose echo is taken out, and by what, which remembers the room; None: no echo is.
    """

    def __init__(
        self,
        rate: int,
        channels: int,
        channel: int | None,
        high_pass: float = 0.0,
        reference: tuple[int, EchoCanceller] | None = None,
    ) -> None:
        self.rate, self.channels = rate, channels
        self.downmix = Downmix(rate, channels, channel)
        self._stream = _resampler(rate, "int16") if rate != RATE else None
        self._filter = HighPass(high_pass) if high_pass else None
        self._far, self._echo = 0, None
        if reference is not None and reference[0] < channels:
            self._far, self._echo = reference
        self._far_stream = _resampler(rate, "float32") if self._stream and self._echo else None

    def take(self, data: bytes) -> NDArray[np.int16]:
        """Convert interleaved int16; what comes back may lag behind by the resampler's filter."""
        native = np.frombuffer(data, "<i2").reshape(-1, self.channels)
        mono = np.rint(self.downmix.take(native)).astype(np.int16)
        near = mono if self._stream is None else self._resample(mono, last=False)
        if self._echo is not None:
            near = self._echo.take(near, self._resample_far(native[:, self._far], last=False))
        return self._filter_out(near)

    def rest(self) -> NDArray[np.int16]:
        """What is left in the filter at the end."""
        empty = np.zeros(0, np.int16)
        near = empty if self._stream is None else self._resample(empty, last=True)
        if self._echo is not None:
            cleaned = self._echo.take(near, self._resample_far(empty, last=True))
            near = np.concatenate((cleaned, self._echo.rest()))
        return self._filter_out(near)

    def _filter_out(self, samples: NDArray[np.int16]) -> NDArray[np.int16]:
        return samples if self._filter is None else self._filter.take(samples)

    def _resample(self, mono: NDArray[np.int16], last: bool) -> NDArray[np.int16]:
        assert self._stream is not None
        converted: NDArray[np.int16] = self._stream.resample_chunk(mono, last=last)
        return converted

    def _resample_far(self, reference: NDArray[np.int16], last: bool) -> NDArray[np.int16]:
        """The reference at 16 kHz, rounded; soxr's own int16 is dithered, which makes of silence what is none."""
        if self._far_stream is None:
            return reference
        converted: NDArray[np.float32] = self._far_stream.resample_chunk(reference.astype(np.float32), last=last)
        return np.clip(np.rint(converted), -32_768, 32_767).astype(np.int16)


def _resampler(rate: int, kind: str) -> ResampleStream:
    try:
        from soxr import ResampleStream
    except ImportError as error:
        raise SettingsError(f"Sound at {rate} Hz needs soxr: {extra_command('mic')}.") from error
    return ResampleStream(rate, RATE, 1, dtype=kind, quality="HQ")


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


CHUNK_SAMPLES = 32
"""Samples that are worked out at once, counted from the stream's first, so that cuts change nothing."""


class HighPass:
    """A filter of one pole and one zero: y[n] = a y[n-1] + g (x[n] - x[n-1]), with the gain 1 at high frequencies.

    a = (1 - t) / (1 + t), g = (1 + a) / 2, t = tan(pi cutoff / rate): the bilinear transform of s / (s + w). The first
    sample is taken for what was always there, so that an offset makes no click. Within a chunk of `CHUNK_SAMPLES`,
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
        powers = np.arange(CHUNK_SAMPLES)
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
        steps = np.zeros(-(-len(waiting) // CHUNK_SAMPLES) * CHUNK_SAMPLES)
        steps[: len(waiting)] = np.diff(waiting, prepend=self._before) * self._gain
        filtered, carried = self._chunks(steps.reshape(-1, CHUNK_SAMPLES))
        whole = len(waiting) // CHUNK_SAMPLES
        if whole:
            self._before, self._carried = float(waiting[whole * CHUNK_SAMPLES - 1]), carried[whole]
        given, self._begun = len(self._begun), waiting[whole * CHUNK_SAMPLES :]
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
