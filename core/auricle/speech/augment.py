"""On-device augmentation of mel energies: shift, tempo, vocal tract, gain, background noise; SpecAugment at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.speech.features import Energies, LogMel

ACTIVE_SHARE = 0.98
"""Of a clip's energy is in the frames in which something is said."""


@dataclass(frozen=True)
class Augmentation:
    """Ranges from which each clip draws; every value is uniform in its range."""

    shift_frames: int = 10
    """Largest shift either way, in frames."""
    tempo: float = 0.1
    """Largest relative change of speed."""
    warp: float = 0.12
    """Largest relative shift of the mel axis (vocal tract length)."""
    gain_db: float = 6.0
    noise_probability: float = 0.8
    snr_db: tuple[float, float] = (0.0, 20.0)
    """Level of the word (`word_level`) over that of the noise."""
    time_masks: int = 2
    time_width: int = 12
    """Widest time mask in frames (SpecAugment)."""
    mel_masks: int = 2
    mel_width: int = 5


def mel_warps(stretch: NDArray[np.float64], mels: int) -> NDArray[np.float32]:
    """Matrices (B, mels, mels) that stretch the mel axis of energies (B, T, mels) by so much, (B, 1), as another vocal
    tract does: what a band hears then is between two bands of before.
    """
    position = np.clip(np.arange(mels) * stretch, 0, mels - 1)
    distance = np.abs(np.arange(mels)[None, :, None] - position[:, None, :])
    matrices: NDArray[np.float32] = np.maximum(0, 1 - distance).astype(np.float32)
    return matrices


class Augmenter:
    """Draws augmented log-mels; all its randomness comes from the generator it is given.

    Parameters
    ----------
    frontend
        Turns energies into log-mels.
    noise
        Mel energies (F, mels) of background noise, F at least one clip's frames; None: clips get no noise.
    settings
        The ranges.
    """

    def __init__(
        self, frontend: LogMel, noise: NDArray[np.float32] | None, settings: Augmentation | None = None
    ) -> None:
        self.frontend, self.noise, self.settings = frontend, noise, settings or Augmentation()

    def __call__(self, energies: Energies, rng: np.random.Generator) -> NDArray[np.float32]:
        """Features of energies (B, T, mels), each clip with its own draw; of log-mels, parts are hidden."""
        warped = self._warp_mels(self._move_in_time(energies, rng), rng)
        warped *= self.draw_gains(len(energies), rng)[:, None, None]
        if self.noise is not None:
            self._add_noise(warped, rng)
        features = self.frontend.finish(warped)
        return self._mask(features, rng) if self.frontend.task.frontend.network is UNSET else features

    def draw_frames(self, count: int, frames: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Which frame each frame of a clip is taken from: (B, T)."""
        s = self.settings
        shift = rng.uniform(-s.shift_frames, s.shift_frames, (count, 1))
        speed = 1 + rng.uniform(-s.tempo, s.tempo, (count, 1))
        middle = (frames - 1) / 2
        source = np.rint((np.arange(frames) - middle) * speed + middle + shift).astype(np.int64)
        return np.clip(source, 0, frames - 1)

    def draw_stretches(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """By how much the mel axis of each clip is stretched: (B, 1)."""
        return 1 + rng.uniform(-self.settings.warp, self.settings.warp, (count, 1))

    def draw_gains(self, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """By what the energies of each clip are multiplied: (B,)."""
        gains: NDArray[np.float64] = 10 ** (rng.uniform(-1, 1, count) * self.settings.gain_db / 10)
        return gains.astype(np.float32)

    def draw_noise(
        self, count: int, frames: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """Where the noise of each clip begins, decibels of the word over it, and whether there is any: (B,) each."""
        assert self.noise is not None
        starts = rng.integers(0, len(self.noise) - frames + 1, count)
        snr = rng.uniform(*self.settings.snr_db, count)
        return starts, snr, rng.random(count) < self.settings.noise_probability

    def draw_masks(
        self, count: int, frames: int, mels: int, rng: np.random.Generator
    ) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Masks: axis 1, of time, or 2, of mels, and of each clip the first place and how many: (B, 1) both."""
        s, masks = self.settings, []
        for number, widest, size, axis in (
            (s.time_masks, s.time_width, frames, 1),
            (s.mel_masks, s.mel_width, mels, 2),
        ):
            width = min(widest, size)
            for _ in range(number):
                span = rng.integers(0, width + 1, count)[:, None]
                masks.append((axis, rng.integers(0, size - width + 1, count)[:, None], span))
        return masks

    def _move_in_time(self, energies: Energies, rng: np.random.Generator) -> Energies:
        count, frames, _ = energies.shape
        moved: Energies = energies[np.arange(count)[:, None], self.draw_frames(count, frames, rng)]
        return moved

    def _warp_mels(self, energies: Energies, rng: np.random.Generator) -> Energies:
        count, _, mels = energies.shape
        warped: Energies = np.matmul(energies, mel_warps(self.draw_stretches(count, rng), mels))
        return warped

    def _add_noise(self, energies: Energies, rng: np.random.Generator) -> None:
        assert self.noise is not None
        count, frames, _ = energies.shape
        starts, snr, on = self.draw_noise(count, frames, rng)
        segments = self.noise[starts[:, None] + np.arange(frames)]
        factor = np.where(on, noise_factors(energies, segments, snr), 0)
        energies += segments * factor[:, None, None].astype(np.float32)

    def _mask(self, logs: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
        count, frames, mels = logs.shape
        keep = np.ones_like(logs, dtype=bool)
        for axis, start, span in self.draw_masks(count, frames, mels, rng):
            place = np.arange(logs.shape[axis])
            free = (place < start) | (place >= start + span)
            keep &= np.expand_dims(free, 3 - axis)
        masked: NDArray[np.float32] = logs * keep
        return masked


def word_level(energies: Energies) -> NDArray[np.float32]:
    """Mean energy of each clip over the frames in which something is said: (B,) of (B, T, mels).

    These are the loudest frames that hold 98 % of the clip's energy, as few of them as do. A word of a third of a
    second is 5 dB louder by this measure than over its whole second, and it does not matter how much silence is
    around it.
    """
    frames = -np.sort(-energies.mean(axis=2, dtype=np.float64), axis=1)
    sums = np.cumsum(frames, axis=1)
    enough = sums >= ACTIVE_SHARE * sums[:, -1:]
    last = np.argmax(enough, axis=1)
    level: NDArray[np.float32] = (sums[np.arange(len(sums)), last] / (last + 1)).astype(np.float32)
    return level


def noise_factors(
    energies: Energies, noise: Energies, snr_db: float | NDArray[np.float64]
) -> NDArray[np.floating[Any]]:
    """By what noise (B, T, mels) is multiplied for the words of clips (B, T, mels) to be so many decibels above it."""
    factors: NDArray[np.floating[Any]] = word_level(energies) / (noise.mean(axis=(1, 2)) + 1e-12) * 10 ** (-snr_db / 10)
    return factors


def noise_energies(frontend: LogMel, noise: list[NDArray[np.float32]]) -> NDArray[np.float32] | None:
    """Mel energies (F, mels) of noise recordings laid end to end, each cut to whole clips; None without one."""
    length = frontend.task.clip_samples
    clips = [part[: len(part) // length * length].reshape(-1, length) for part in noise if len(part) >= length]
    if not clips:
        return None
    return frontend.energies(np.concatenate(clips)).reshape(-1, frontend.task.frontend.mels)
