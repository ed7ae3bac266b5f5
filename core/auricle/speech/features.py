"""The log-mel front-end, in NumPy, with exactly the parameters of the pack's manifest; and where in it a word is.

Clips are kept as mel *energies*, which is what augmentation works on: sounds add up in energy. The logarithm is last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import PackError
from auricle.packs.frontend import Frontend
from auricle.packs.manifest import Task
from auricle.speech.quantiles import quantile

Energies = NDArray[np.float32]

CACHED_CLIPS = 4
"""Clips whose spectra are in the processor's cache together."""
THREADED_PRODUCT = 1 << 18
"""Multiplications of a matrix product from which OpenBLAS starts threads: they wait in a loop, longer than all the rest
takes, and the last bits of a sum depend on how many there are."""


class VectorStream(Protocol):
    """A network over one sound as it comes; what it heard of it so far is in it."""

    def __call__(self, mels: NDArray[np.float32]) -> NDArray[np.float32]:
        """The vector (size,) that ends with the next log-mels (stride, mels); the first ones heard silence before."""


class FrozenNetwork(Protocol):
    """The network of a front-end, run by somebody. Safe to share between threads."""

    def vectors(self, mels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors (N, T', size) of windows' log-mels (N, frames, mels)."""

    def stream(self) -> VectorStream:
        """A new sound."""


SLANEY_LINEAR, SLANEY_BREAK, SLANEY_STEP = 200 / 3, 1000.0, float(np.log(6.4)) / 27
"""Hz of a mel below the break, the break in Hz, and nepers of a mel above it."""


def _slaney_mels(hz: float) -> float:
    """Mels of a frequency as Slaney's Auditory Toolbox counts them: in a straight line, and from 1 kHz in octaves."""
    over = max(hz / SLANEY_BREAK, 1.0)
    return min(hz, SLANEY_BREAK) / SLANEY_LINEAR + float(np.log(over)) / SLANEY_STEP


def _edges(frontend: Frontend) -> NDArray[np.float64]:
    """Frequencies (mels + 2,) in Hz, equally spaced on the front-end's mel scale, between which triangles lie."""
    if frontend.filters == "slaney":
        mels = np.linspace(_slaney_mels(frontend.low_hz), _slaney_mels(frontend.high_hz), frontend.mels + 2)
        linear = np.minimum(mels * SLANEY_LINEAR, SLANEY_BREAK)
        edges: NDArray[np.float64] = linear * np.exp(np.maximum(mels - SLANEY_BREAK / SLANEY_LINEAR, 0) * SLANEY_STEP)
        return edges
    low, high = (2595 * np.log10(1 + hz / 700) for hz in (frontend.low_hz, frontend.high_hz))
    even: NDArray[np.float64] = 700 * (10 ** (np.linspace(low, high, frontend.mels + 2) / 2595) - 1)
    return even


@lru_cache(maxsize=16)
def mel_filters(frontend: Frontend, sample_rate: int) -> NDArray[np.float32]:
    """Triangular filters, equally spaced on the front-end's mel scale: (fft/2 + 1, mels), of peak 1 or of area 1 Hz."""
    edges = _edges(frontend)
    bins = np.arange(frontend.fft // 2 + 1) * (sample_rate / frontend.fft)
    rising = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    triangles = np.maximum(0, np.minimum(rising, falling))
    if frontend.filters == "slaney":
        triangles *= 2 / (edges[2:] - edges[:-2])
    filters: NDArray[np.float32] = triangles.astype(np.float32)
    filters.flags.writeable = False
    return filters


class LogMel:
    """The front-end of one task.

    Parameters
    ----------
    task
        Clip length, frames and front-end parameters, from the pack's manifest.
    network
        Runs the network that the task's front-end has; without, its energies can be had and nothing that comes after.

    Raises
    ------
    PackError
        Parameters that contradict each other.
    """

    def __init__(self, task: Task, network: FrozenNetwork | None = None) -> None:
        f = task.frontend
        if f.window > f.fft or not f.low_hz < f.high_hz <= task.sample_rate / 2:
            raise PackError("The front-end's window must fit its FFT, and its mel range the sample rate.")
        missing = (task.frames - 1) * f.hop + f.window - task.clip_samples
        if missing < 0:
            raise PackError("The front-end's frames do not cover the clip.")
        self.task, self._network = task, network
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
        energies: Energies = np.empty((*windows.shape[:2], f.mels), np.float32)
        step = max(1, THREADED_PRODUCT // self._filters.size)
        for clip in range(0, len(windows), CACHED_CLIPS):
            clips = slice(clip, clip + CACHED_CLIPS)
            spectrum = np.fft.rfft(windows[clips] * self._window, f.fft, axis=2)
            power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
            for first in range(0, power.shape[1], step):
                frames = slice(first, first + step)
                energies[clips, frames] = power[:, frames] @ self._filters
        return energies

    def finish(self, energies: Energies) -> NDArray[np.float32]:
        """What models take, of energies (N, frames, mels): log-mels, or the vectors of the front-end's network."""
        logs = self._logarithms(energies)
        return logs if self.task.frontend.network is UNSET else self.network.vectors(logs)

    def _logarithms(self, energies: Energies) -> NDArray[np.float32]:
        """Log-mels of energies (N, T, mels): centred on each clip's mean, times the scale; a network's are shifted."""
        f = self.task.frontend
        logs: NDArray[np.float32] = energies + np.float32(f.floor)
        np.log(logs, out=logs)
        if f.network is UNSET:
            logs -= logs.mean(axis=(1, 2), keepdims=True)
        logs *= np.float32(f.scale)
        if f.network is not UNSET:
            logs += np.float32(f.network.shift)
        return logs

    @property
    def network(self) -> FrozenNetwork:
        """What runs the front-end's network; PackError where nothing does."""
        if self._network is None:
            raise PackError("This front-end has a network, and nothing here runs it: make it with `frontend_of`.")
        return self._network

    def windows(self, energies: Energies, starts: NDArray[np.int64]) -> NDArray[np.float32]:
        """What models take, of windows (N,) of one sound (S, mels) that begin with these frames: as `finish` of each.

        A network looks at what windows share once: whole windows one behind the other, each of whose vectors is the
        same wherever it lies.
        """
        if self.task.frontend.network is UNSET:
            return self.finish(energies[starts[:, None] + np.arange(self.task.frames)])
        return self.vectors_of(energies, starts).windows(starts)

    def vectors_of(self, energies: Energies, starts: NDArray[np.int64]) -> SoundVectors:
        """A network's vectors of one sound (S, mels) that windows (N,) which begin with these frames have."""
        network, count = self.task.frontend.network, self.task.input_shape[0]
        assert network is not UNSET
        reach = network.stride * np.arange(count)
        firsts = _covering(np.unique(starts[:, None] + reach), count, network.stride, len(energies) - self.task.frames)
        made = [np.empty((0, network.size), np.float32)]
        made += [self.finish(energies[None, first : first + self.task.frames])[0] for first in firsts]
        places, have = np.zeros(len(energies), np.int64), np.array(firsts, np.int64)[:, None] + reach
        places[have.ravel()] = np.arange(have.size)
        return SoundVectors(np.concatenate(made), places, reach)

    def stream(self) -> VectorStream:
        """A new sound: from its next energies (stride, mels) to the vector (size,) that ends with them."""
        run = self.network.stream()
        return lambda energies: run(self._logarithms(energies[None])[0])

    def __call__(self, audio: NDArray[Any]) -> NDArray[np.float32]:
        """What models take, of clips (N, clip_samples)."""
        return self.finish(self.energies(audio))


@dataclass(frozen=True, eq=False)
class SoundVectors:
    """What a network makes of one sound, each vector once or a few times."""

    vectors: NDArray[np.float32]
    """(V, size)."""
    places: NDArray[np.int64]
    """(S,) which of them begins with each frame."""
    reach: NDArray[np.int64]
    """(T',) frames from a window's first to the first of each of its vectors."""

    def windows(self, starts: NDArray[np.int64]) -> NDArray[np.float32]:
        """Windows (N, T', size) that begin with these of the frames that were asked for."""
        found: NDArray[np.float32] = self.vectors[self.places[starts[:, None] + self.reach]]
        return found


def _covering(wanted: NDArray[np.int64], count: int, stride: int, last: int) -> list[int]:
    """First frames of windows of `count` vectors that have all wanted ones (ascending), none later than `last`."""
    firsts, have = [], set[int]()
    for start in wanted.tolist():
        if start in have:
            continue
        first = start - max(0, -(-(start - last) // stride)) * stride
        firsts.append(first)
        have.update(range(first, first + count * stride, stride))
    return firsts


PIECE_FRAMES = 3_000
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
    for first in range(0, frames, PIECE_FRAMES):
        count = min(PIECE_FRAMES, frames - first)
        covered = (count - 1) * f.hop + f.window
        piece = LogMel(msgspec.structs.replace(task, frames=count, clip_samples=covered))
        parts.append(piece.energies(padded[None, first * f.hop : first * f.hop + covered])[0])
    return np.concatenate(parts)


def window_begin(task: Task, end: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """First frame of the newest window that ends with a unit of the task, not after the frame `end`.

    Parameters
    ----------
    end
        How many frames of a sound have come, any shape; below 0 is the result where no whole window has.
    """
    begin: NDArray[np.int64] = np.asarray(end, np.int64) // task.unit * task.unit - task.frames
    return begin


PAUSE_FRAMES = 10
"""Frames of silence inside a word, such as before the last sound of "stop"."""
RISE_SHARE = 0.3
"""Share of the way from the quietest to the loudest frame from which a frame is sound."""
LEAST_NEPERS = 0.7
"""Nepers of energy (3 dB) that a sound stands out at least."""


def word_span(energies: Energies, floor: float) -> tuple[int, int]:
    """First frame of the loudest sound, and the frame after its last.

    The level of a frame is the mean over the bands of the logarithm of its energy, averaged over three frames; a frame
    is sound when it is above the tenth percentile by `RISE_SHARE` of the range and by `LEAST_NEPERS`. From the
    loudest frame on, in both directions, the word goes to the last such frame before a longer pause.

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
    sounding = np.flatnonzero(levels >= quiet + max(LEAST_NEPERS, RISE_SHARE * (levels[peak] - quiet)))
    begin = end = peak
    for frame in sounding[sounding > peak]:
        if frame - end > PAUSE_FRAMES:
            break
        end = int(frame)
    for frame in sounding[sounding < peak][::-1]:
        if begin - frame > PAUSE_FRAMES:
            break
        begin = int(frame)
    return begin, end + 1
