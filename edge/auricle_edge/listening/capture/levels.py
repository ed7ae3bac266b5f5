"""What a microphone does to the sound before anything is filtered: its noise floor, its offset, the mains' hum."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle_edge.listening.capture.channels import Downmix
from auricle_edge.listening.capture.frames import Sound

MEMORY_SECONDS = 10
"""Seconds that are remembered."""
MAINS = (50, 60)
"""Hz of the mains in one country or another."""
HARMONICS = 3
"""Of the mains that are listened for: the first is in speech, too, but nowhere so steady."""
_COARSE = 1000
"""Hz to which the sound is brought for the hum, about."""
_SILENT = -120.0


@dataclass(frozen=True)
class Levels:
    """Of the last ten seconds; all None before the first second was heard."""

    noise_floor_dbfs: float | None = None
    """Level of the quietest tenth of a second, the offset not counted."""
    dc_offset: float | None = None
    """Mean of the samples, as a share of full scale, -1 to 1."""
    hum_share: float | None = None
    """Share of the power of the quietest second that is hum of the mains."""
    hum_hz: int | None = None
    """50 or 60, whichever is more."""


@dataclass(frozen=True)
class _Second:
    level: float
    quietest: float
    offset: float
    hum: tuple[float, int]


class LevelMeter:
    """Looks at each whole second of what is listened to of the channels, at the device's own rate.

    Hum is looked for in the quietest second: there it stands alone, and a voice in another second does not hide it.

    Parameters
    ----------
    channel
        As in `Conversion`.
    """

    def __init__(self, channel: int | None) -> None:
        self._channel = channel
        self._downmix: Downmix | None = None
        self._pieces: list[NDArray[np.float32]] = []
        self._count, self._rate = 0, 0
        self._seconds: deque[_Second] = deque(maxlen=MEMORY_SECONDS)

    def take(self, frame: Sound) -> None:
        """Count a frame in; a second across which sound was lost, or of another device, is left out."""
        if frame.lost or frame.rate != self._rate:
            self._pieces, self._count, self._rate = [], 0, frame.rate
        native = np.frombuffer(frame.data, "<i2").reshape(-1, frame.channels)
        downmix = self._downmix
        if downmix is None or (downmix.rate, downmix.channels) != (frame.rate, frame.channels):
            downmix = self._downmix = Downmix(frame.rate, frame.channels, self._channel)
        mono = downmix.take(native).astype(np.float32)
        self._pieces.append(mono / np.float32(32_768))
        self._count += len(mono)
        if self._count >= frame.rate:
            second = np.concatenate(self._pieces)
            self._seconds.append(_judge_second(second[: frame.rate].astype(np.float64), frame.rate))
            self._pieces, self._count = [second[frame.rate :]], self._count - frame.rate

    @property
    def levels(self) -> Levels:
        """As they are now."""
        if not self._seconds:
            return Levels()
        quietest = min(self._seconds, key=lambda second: second.level)
        share, mains = quietest.hum
        return Levels(
            noise_floor_dbfs=round(min(second.quietest for second in self._seconds), 1),
            dc_offset=round(float(np.mean([second.offset for second in self._seconds])), 5),
            hum_share=round(share, 3),
            hum_hz=mains,
        )


def _judge_second(second: NDArray[np.float64], rate: int) -> _Second:
    offset = float(second.mean())
    centred = second - offset
    tenths = centred[: rate // 10 * 10].reshape(10, -1)
    power = float(np.square(centred).mean())
    return _Second(
        level=_decibels(power),
        quietest=_decibels(float(tenths.var(axis=1).min())),
        offset=offset,
        hum=max(((hum(centred, rate, mains) / power if power > 0 else 0.0), mains) for mains in MAINS),
    )


def hum(second: NDArray[np.float64], rate: int, mains: int) -> float:
    """Power of the mains and its harmonics in a second (rate,) of sound at any rate from 4,000 Hz.

    The sound is averaged down to about 1 kHz; a Hann window spreads a tone over three bins of 1 Hz, one more on each
    side is counted for mains that are not exact.
    """
    width = rate // _COARSE
    coarse = second[: len(second) // width * width].reshape(-1, width).mean(axis=1)
    window = np.hanning(len(coarse) + 1)[:-1]
    spectrum = np.square(np.abs(np.fft.rfft(coarse * window)))
    found = 0.0
    for tone in range(mains, mains * HARMONICS + 1, mains):
        place = round(tone * len(second) / rate)
        lost = float(np.sinc(tone * width / rate)) ** 2
        found += float(spectrum[place - 2 : place + 3].sum()) / lost
    return 2 * found / (len(coarse) * float(np.square(window).sum()))


def _decibels(power: float) -> float:
    return max(_SILENT, 10 * math.log10(max(power, 1e-12)))
