"""What is around the words of a window: a room, somebody else's voice, the microphone's colour, noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import Task
from auricle.speech.features import Energies
from auricle_export.pretrain.acoustics import Range, echo, tilts
from auricle_export.pretrain.made_noise import NoiseMaker
from auricle_export.pretrain.mined import MinedWindows, draw
from auricle_export.pretrain.sounds import Sounds
from auricle_export.pretrain.window_settings import WindowSettings

Levels = NDArray[np.float32]

CROWD = 4
"""Voices of a crowd: with as many nobody is understood, and it is no steady noise yet."""


class Surroundings:
    """Draws them; all randomness comes from the generator it is given.

    Parameters
    ----------
    running, noise
        Speech in the background, and recorded noise.
    task
        Sample rate and front-end.
    settings
        What to draw.
    """

    def __init__(self, running: Sounds, noise: Sounds, task: Task, settings: WindowSettings) -> None:
        self._running, self._noise, self._settings = running, noise, settings
        self._made = NoiseMaker(task)
        self.noise_found: MinedWindows | None = None
        """Noise that a model mistook for a keyword: from now on it is met more often."""

    def __call__(self, mixed: Energies, silent: NDArray[np.bool_], level: Levels, rng: np.random.Generator) -> None:
        """Put room, other people in the background, the microphone's colour and noise over sounds, in place.

        Parameters
        ----------
        mixed
            (N, F, mels) mel energies.
        silent
            (N,) whether nobody speaks in the foreground.
        level
            (N,) mean energy of each word.
        """
        s, count = self._settings, len(mixed)
        there = np.flatnonzero(rng.random(count) < s.room)
        mixed[there] = echo(mixed[there], rng, s.decay, s.direct_db)
        talk = np.flatnonzero(~silent & (rng.random(count) < s.babble))
        self._background(mixed, talk, self._running, level, s.babble_db, rng)
        if s.crowd:
            many = np.flatnonzero(~silent & (rng.random(count) < s.crowd))
            self._background(mixed, many, self._running, level, s.crowd_db, rng, CROWD)
        mixed *= tilts(count, mixed.shape[2], rng, s.tilt_db)
        loud = np.where(silent, level * 10 ** rng.uniform(-1, 2, count), level).astype(np.float32)
        noisy, made = (rng.random(count) < s.noise) | silent, rng.random(count) < s.made
        self._background(mixed, np.flatnonzero(noisy & ~made), self._noise, loud, s.snr_db, rng)
        which = np.flatnonzero(noisy & made)
        factor = loud[which] * 10 ** (-rng.uniform(*s.snr_db, len(which)) / 10)
        mixed[which] += self._made(len(which), mixed.shape[1], rng) * factor.astype(np.float32)[:, None, None]
        second = np.flatnonzero(rng.random(count) < s.second_noise)
        self._background(mixed, second, self._noise, loud, s.snr_db, rng)

    def _background(
        self,
        mixed: Energies,
        which: NDArray[np.int64],
        sounds: Sounds,
        level: Levels,
        ratio_db: Range,
        rng: np.random.Generator,
        voices: int = 1,
    ) -> None:
        """Add random stretches of so many recordings, equally loud, so many decibels below the word together."""
        shape = (len(which), mixed.shape[1])
        stretch = self._stretches(sounds, shape, rng)
        if voices > 1:
            others = (self._stretches(sounds, shape, rng) for _ in range(voices - 1))
            stretch = sum(map(_equally_loud, others), _equally_loud(stretch))
        own = stretch.mean(axis=(1, 2)) + 1e-9
        factor = level[which] / own * 10 ** (-rng.uniform(*ratio_db, len(which)) / 10)
        mixed[which] += stretch * np.minimum(factor, 1e6).astype(np.float32)[:, None, None]

    def _stretches(self, sounds: Sounds, shape: tuple[int, int], rng: np.random.Generator) -> Energies:
        """Energies (N, F, mels) of random stretches of recordings, each at another speed; `shape` is (N, F)."""
        count, frames = shape
        chosen = rng.choice(len(sounds), count, p=sounds.lengths / sounds.lengths.sum())
        start = rng.integers(0, sounds.lengths[chosen])
        if self.noise_found is not None and sounds is self._noise:
            hard = rng.random(count) < self._settings.mined
            found = self.noise_found
            places = draw(found.scores, int(hard.sum()), rng)
            chosen[hard], start[hard] = found.sounds[places], found.frames[places]
        speed = np.exp(rng.uniform(-0.4, 0.4, count))
        speed *= np.where(rng.random(count) < self._settings.backwards, -1, 1)
        source = start[:, None] + np.rint(np.arange(frames)[None] * speed[:, None]).astype(np.int64)
        rows = sounds.starts[chosen][:, None] + source % sounds.lengths[chosen][:, None]
        stretches: Energies = sounds.energies[rows]
        return stretches


def _equally_loud(stretches: Energies) -> Energies:
    """Energies (N, F, mels) whose mean is 1, each."""
    levelled: Energies = stretches / (stretches.mean(axis=(1, 2), keepdims=True) + 1e-9)
    return levelled
