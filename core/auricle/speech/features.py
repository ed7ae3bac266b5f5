"""The log-mel front-end, in NumPy, with exactly the parameters of the pack's manifest; and where in it a word is.

Clips are kept as mel *energies*, which is what augmentation works on: sounds add up in energy. The logarithm is last.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import PackError
from auricle.packs.manifest import Frontend, Task

Energies = NDArray[np.float32]


@lru_cache(maxsize=16)
def mel_filters(frontend: Frontend, sample_rate: int) -> NDArray[np.float32]:
    """Triangular filters, equally spaced on the mel scale 2595 log10(1 + f/700): (fft/2 + 1, mels), peak 1."""
    low, high = (2595 * np.log10(1 + hz / 700) for hz in (frontend.low_hz, frontend.high_hz))
    edges = 700 * (10 ** (np.linspace(low, high, frontend.mels + 2) / 2595) - 1)
    bins = np.arange(frontend.fft // 2 + 1) * (sample_rate / frontend.fft)
    rising = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    filters: NDArray[np.float32] = np.maximum(0, np.minimum(rising, falling)).astype(np.float32)
    filters.flags.writeable = False
    return filters


class LogMel:
    """The front-end of one task.

    Parameters
    ----------
    task
        Clip length, frames and front-end parameters, from the pack's manifest.

    Raises
    ------
    PackError
        Parameters that contradict each other.
    """

    def __init__(self, task: Task) -> None:
        f = task.frontend
        if f.window > f.fft or not f.low_hz < f.high_hz <= task.sample_rate / 2:
            raise PackError("The front-end's window must fit its FFT, and its mel range the sample rate.")
        missing = (task.frames - 1) * f.hop + f.window - task.clip_samples
        if missing < 0:
            raise PackError("The front-end's frames do not cover the clip.")
        self.task = task
        self._pad = (missing // 2, missing - missing // 2)
        self._window = np.hanning(f.window + 1)[:-1].astype(np.float32)
        self._filters = mel_filters(f, task.sample_rate)

    def energies(self, audio: NDArray[Any]) -> Energies:
        """Mel energies (N, frames, mels) of clips (N, clip_samples): float in [-1, 1], or int16."""
        if audio.dtype == np.int16:
            audio = audio.astype(np.float32) / np.float32(32768)
        f = self.task.frontend
        padded = np.pad(audio.astype(np.float32, copy=False), ((0, 0), self._pad))
        windows = np.lib.stride_tricks.sliding_window_view(padded, f.window, axis=1)[:, :: f.hop]
        spectrum = np.fft.rfft(windows * self._window, f.fft, axis=2)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
        energies: Energies = power @ self._filters
        return energies

    def finish(self, energies: Energies) -> NDArray[np.float32]:
        """Log-mels of energies (N, T, mels): the logarithm, centred on each clip's own mean, times the scale."""
        f = self.task.frontend
        logs: NDArray[np.float32] = np.log(energies + np.float32(f.floor))
        logs -= logs.mean(axis=(1, 2), keepdims=True)
        logs *= np.float32(f.scale)
        return logs

    def __call__(self, audio: NDArray[Any]) -> NDArray[np.float32]:
        """Log-mels (N, frames, mels) of clips (N, clip_samples)."""
        return self.finish(self.energies(audio))


PIECE = 3_000
"""Frames of a recording whose spectra are in memory at once."""


def stream_energies(task: Task, samples: NDArray[Any]) -> Energies:
    """Mel energies (frames, mels) of a recording (S,), float or int16, as a device that listens to it computes them.

    Frame i ends with sample (i + 1) hop; before the first sample there is silence, and what does not fill a last frame
    is left out.
    """
    f = task.frontend
    frames = len(samples) // f.hop
    padded = np.concatenate((np.zeros(f.window - f.hop, samples.dtype), samples))
    parts = [np.zeros((0, f.mels), np.float32)]
    for first in range(0, frames, PIECE):
        count = min(PIECE, frames - first)
        covered = (count - 1) * f.hop + f.window
        piece = LogMel(msgspec.structs.replace(task, frames=count, clip_samples=covered))
        parts.append(piece.energies(padded[None, first * f.hop : first * f.hop + covered])[0])
    return np.concatenate(parts)


PAUSE = 10
"""Frames of silence inside a word, such as before the last sound of "stop"."""
RISE = 0.3
"""Share of the way from the quietest to the loudest frame from which a frame is sound."""
LEAST = 0.7
"""Nepers of energy (3 dB) that a sound stands out at least."""


def quantile(values: NDArray[Any], share: float) -> float:
    """What the share of the values (n,) lies below, n >= 1, interpolated: `np.quantile` without all of `numpy.ma`."""
    kind = values.dtype.type if values.dtype.kind == "f" else np.float64
    ordered = np.sort(values)
    place = (len(ordered) - 1) * kind(share)
    before = int(place)
    low, high = ordered[before], ordered[min(before + 1, len(ordered) - 1)]
    part, apart = place - kind(before), high - low
    return float(low + apart * part if part < 0.5 else high - apart * (kind(1) - part))


def word_span(energies: Energies, floor: float) -> tuple[int, int]:
    """First frame of the loudest sound, and the frame after its last.

    The level of a frame is the mean over the bands of the logarithm of its energy, averaged over three frames; a frame
    is sound when it is above the tenth percentile by `RISE` of the range and by `LEAST`. From the loudest frame on, in
    both directions, the word goes to the last such frame before a longer pause.

    Parameters
    ----------
    energies
        (T, mels) mel energies, T >= 3.
    floor
        Energy below which the front-end does not look.

    Returns
    -------
    tuple
        Begin and end, 0 <= begin < end <= T.
    """
    levels = np.log(energies + np.float32(floor)).mean(axis=1)
    padded = np.pad(levels, 1, mode="edge")
    levels = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    quiet, peak = quantile(levels, 0.1), int(levels.argmax())
    sounding = np.flatnonzero(levels >= quiet + max(LEAST, RISE * (levels[peak] - quiet)))
    begin = end = peak
    for frame in sounding[sounding > peak]:
        if frame - end > PAUSE:
            break
        end = int(frame)
    for frame in sounding[sounding < peak][::-1]:
        if begin - frame > PAUSE:
            break
        begin = int(frame)
    return begin, end + 1
