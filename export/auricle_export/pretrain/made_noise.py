"""Noises that nobody recorded: steady and uneven ones of every colour, hum of the mains, tones and tunes.

Recorded noises are few. What a model never met as noise it takes for a word sooner or later.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import Task
from auricle.speech.features import Energies, mel_filters

Values = NDArray[np.float64]

SHARES = (0.35, 0.3, 0.2, 0.15)
"""Of steady noise, uneven noise, tones and hum."""
MAINS = (50.0, 60.0, 100.0, 120.0)
"""Hertz."""
_KNOTS = 6
_SHAPE = 2.5
"""Of the gamma distribution of a band's energy: a mel band is the mean of a few bins of noise."""
_GRAINS = 1 << 21
"""Fluctuations drawn once and used from anywhere on: drawing them each time takes longer than all the rest."""
_PARTIALS = 12
_LOBE = 0.25
"""Energy of a tone in the bins beside its own: a Hann window's main lobe."""


class NoiseMaker:
    """Draws noises of one front-end's mel bands."""

    def __init__(self, task: Task) -> None:
        filters = mel_filters(task.frontend, task.sample_rate)
        beside = np.zeros_like(filters)
        beside[1:] += filters[:-1]
        beside[:-1] += filters[1:]
        self._bands = filters + np.float32(_LOBE) * beside
        self._width = task.sample_rate / task.frontend.fft
        self._mels = task.frontend.mels
        self._grains = np.random.default_rng(0).standard_gamma(_SHAPE, _GRAINS, dtype=np.float32)

    def __call__(self, count: int, frames: int, rng: np.random.Generator) -> Energies:
        """Noises (count, frames, mels), the mean energy of each 1."""
        kinds = rng.choice(len(SHARES), count, p=SHARES)
        noise = np.empty((count, frames, self._mels), np.float32)
        makers: tuple[Callable[[int, int, np.random.Generator], Values], ...] = (
            self._steady,
            self._uneven,
            self._tones,
            self._hum,
        )
        for kind, make in enumerate(makers):
            which = np.flatnonzero(kinds == kind)
            if len(which):
                noise[which] = make(len(which), frames, rng)
        noise += np.float32(1e-9)
        noise /= noise.mean(axis=(1, 2), keepdims=True)
        return noise

    def _steady(self, count: int, frames: int, rng: np.random.Generator) -> Values:
        noise: Values = self._fluctuating(count, frames, rng) * self._colours(count, rng)[:, None]
        return noise

    def _uneven(self, count: int, frames: int, rng: np.random.Generator) -> Values:
        """It swells and breaks off, and its colour changes between two."""
        loudness = 10 ** (_wander(count, frames, rng, 12.0) / 10)
        share = 1 / (1 + np.exp(-_wander(count, frames, rng, 2.0)))[:, :, None]
        one, other = (self._colours(count, rng)[:, None] for _ in range(2))
        noise: Values = (share * one + (1 - share) * other) * loudness[:, :, None]
        return noise * self._fluctuating(count, frames, rng)

    def _tones(self, count: int, frames: int, rng: np.random.Generator) -> Values:
        """Notes one after the other, each with its partials, some of which die away; some of them are rests."""
        length = np.exp(rng.uniform(np.log(6), np.log(80), (count, 1)))
        time = np.arange(frames) / length + rng.random((count, 1))
        note = time.astype(np.int64)
        notes = int(note.max()) + 1
        pitch = 60 * 2 ** rng.uniform(0, 5, (count, notes))
        loudness = 10 ** (rng.uniform(-15, 0, (count, notes)) / 10) * (rng.random((count, notes)) > 0.25)
        fall = np.exp(-rng.uniform(0, 6, (count, 1)) * (time - note))
        bands = self._harmonics(pitch, rng) * loudness[:, :, None]
        found: Values = np.take_along_axis(bands, note[:, :, None], axis=1) * fall[:, :, None]
        return found * rng.uniform(0.7, 1.3, (count, frames, 1))

    def _hum(self, count: int, frames: int, rng: np.random.Generator) -> Values:
        """The mains, its multiples, and an offset's share of the lowest band, over faint steady noise."""
        bands = self._harmonics(rng.choice(MAINS, (count, 1)), rng)
        bands[:, :, 0] += bands.max(axis=2) * rng.uniform(0, 2, (count, 1))
        bands /= bands.mean(axis=(1, 2), keepdims=True)
        steady = self._steady(count, frames, rng)
        steady /= steady.mean(axis=(1, 2), keepdims=True)
        hum: Values = bands + steady * 10 ** rng.uniform(-3, -0.5, (count, 1, 1))
        return hum

    def _harmonics(self, pitch: Values, rng: np.random.Generator) -> Values:
        """Mel energies (N, K, mels) of tones (N, K) in hertz with partials that fall off."""
        partial = np.arange(1, _PARTIALS + 1)
        slope = rng.uniform(0.5, 3.0, (len(pitch), 1, 1))
        strength = partial**-slope * rng.uniform(0.2, 1.0, (len(pitch), 1, _PARTIALS))
        place = np.rint(pitch[:, :, None] * partial / self._width).astype(np.int64)
        strength = strength * (place < len(self._bands))
        rows = self._bands[np.minimum(place, len(self._bands) - 1)]
        energies: Values = np.einsum("nkp,nkpm->nkm", np.broadcast_to(strength, place.shape), rows) + 1e-6
        return energies

    def _fluctuating(self, count: int, frames: int, rng: np.random.Generator) -> NDArray[np.float32]:
        size = frames * self._mels
        starts = rng.integers(0, _GRAINS - size, count)
        return np.stack([self._grains[start : start + size] for start in starts]).reshape(count, frames, self._mels)

    def _colours(self, count: int, rng: np.random.Generator) -> Values:
        """Smooth spectra (count, mels)."""
        knots = rng.normal(0, 6, (count, _KNOTS)).cumsum(axis=1)
        place = np.linspace(0, _KNOTS - 1, self._mels)
        low = np.minimum(place.astype(np.int64), _KNOTS - 2)
        level = knots[:, low] * (1 - (place - low)) + knots[:, low + 1] * (place - low)
        colours: Values = 10 ** ((level - level.max(axis=1, keepdims=True)) / 10)
        return colours


def _wander(count: int, frames: int, rng: np.random.Generator, spread: float) -> Values:
    """Values (count, frames) that go from one random height to the next in 3 to 60 frames, a pace for each row."""
    pace = np.exp(rng.uniform(np.log(3), np.log(60), (count, 1)))
    time = np.arange(frames) / pace + rng.random((count, 1))
    step = time.astype(np.int64)
    heights = rng.normal(0, spread, (count, int(step.max()) + 2))
    before, after = (np.take_along_axis(heights, step + more, axis=1) for more in (0, 1))
    wander: Values = before + (after - before) * (time - step)
    return wander
