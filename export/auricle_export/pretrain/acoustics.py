"""What a room and a microphone do to mel energies; sounds add up in energy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.speech.features import Energies

Range = tuple[float, float]
Values = NDArray[np.float32]

FRAME_SECONDS = 0.01
"""Seconds from one frame to the next."""


def echo(energies: Energies, rng: np.random.Generator, decay: Range, direct_db: Range) -> Energies:
    """Sounds (N, T, mels) in rooms whose echo decays exponentially (Polack 1988), frame by frame.

    Parameters
    ----------
    decay
        Seconds in which the echo falls by 60 dB.
    direct_db
        Level of the direct sound over that of the whole echo.
    """
    count = len(energies)
    fall = 10 ** (-6 * FRAME_SECONDS / rng.uniform(*decay, count))
    share = 10 ** (-rng.uniform(*direct_db, count) / 10) * (1 - fall)
    kept, added = (values.astype(np.float32)[:, None] for values in (fall, share))
    ringing = np.zeros_like(energies[:, 0])
    wet = np.empty_like(energies)
    for frame in range(energies.shape[1]):
        wet[:, frame] = energies[:, frame] + added * ringing
        ringing = ringing * kept + energies[:, frame]
    return wet


def tilts(count: int, mels: int, rng: np.random.Generator, most_db: float) -> Values:
    """Factors (N, 1, mels) that colour a sound as other microphones do: a slope and a bend over the bands."""
    place = np.linspace(-1, 1, mels)
    slope = rng.uniform(-1, 1, (count, 1)) * place
    bend = rng.uniform(-0.5, 0.5, (count, 1)) * np.cos(np.pi * place + rng.uniform(0, 2 * np.pi, (count, 1)))
    factors: Values = (10 ** (most_db * (slope + bend) / 10)).astype(np.float32)[:, None]
    return factors


def warp(energies: Energies, rng: np.random.Generator, most: float, times: int = 1) -> Energies:
    """Sounds (N, T, mels) with the mel axis stretched by up to `most`, as another vocal tract does.

    The sounds are N / `times` voices, all of them so many times one after the other.
    """
    count, _, mels = energies.shape
    stretch = np.tile(1 + rng.uniform(-most, most, (count // times, 1)), (times, 1))
    position = np.clip(np.arange(mels) * stretch, 0, mels - 1)
    distance = np.abs(np.arange(mels)[None, :, None] - position[:, None, :])
    moved: Energies = np.matmul(energies, np.maximum(0, 1 - distance).astype(np.float32))
    return moved


def mask(logs: Values, rng: np.random.Generator, share: float, frames: int = 10, bands: int = 6) -> Values:
    """Log-mels (N, T, mels), a stretch and a band of a share of them hidden (SpecAugment, Park et al. 2019)."""
    on = rng.random(len(logs)) < share
    for axis, widest in ((1, frames), (2, bands)):
        size = logs.shape[axis]
        width = rng.integers(0, widest + 1, (len(logs), 1)) * on[:, None]
        start = rng.integers(0, size - widest + 1, (len(logs), 1))
        place = np.arange(size)
        logs = logs * np.expand_dims((place < start) | (place >= start + width), 3 - axis)
    return logs
