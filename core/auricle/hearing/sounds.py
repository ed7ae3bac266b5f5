"""What scenes are put together from: recordings with a level, a beginning and an end; beds of noise; rooms."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.speech.audio import SAMPLE_RATE

Sound = NDArray[np.float32]
"""(samples,) at 16 kHz, full scale at 1."""

SPEECH_DBFS = -26.0
"""Loudness of speech: root mean square of the loudest half second."""
LOUDNESS_DB = 4.0
"""Recordings are brought to that loudness, give or take so much."""
BED_SECONDS = 15
"""A background lasts so long before the next one."""
QUIETEST_DB = -20.0
"""A part of a background that is fainter than this beside the rest of it is not amplified any further."""
_SILENCE = 1e-6


@dataclass(frozen=True, eq=False)
class Take:
    """A recording of one word."""

    word: str
    speaker: str
    sound: Sound


def shuffle(takes: Sequence[Take], rng: np.random.Generator) -> list[Take]:
    """All of them, in random order."""
    return [takes[i] for i in rng.permutation(len(takes))]


def fingerprint(sound: Sound) -> str:
    """What tells a recording from every other: by its samples, so that the same under two names is one."""
    return hashlib.blake2b(np.ascontiguousarray(sound, np.float32).tobytes(), digest_size=8).hexdigest()


def word_span(sound: Sound) -> tuple[int, int]:
    """First and last sample of the word in a clean recording: between them lie 98 % of the energy."""
    energy = np.cumsum(np.square(sound, dtype=np.float64))
    first, last = np.searchsorted(energy, (0.01 * energy[-1], 0.99 * energy[-1]))
    return int(first), min(int(last), len(sound) - 1)


def level(sound: Sound) -> float:
    """Root mean square, never 0."""
    return max(float(np.sqrt(np.mean(np.square(sound, dtype=np.float64)))), _SILENCE) if len(sound) else _SILENCE


def active_level(sound: Sound) -> float:
    """Root mean square of the word itself, from `word_span`."""
    first, last = word_span(sound)
    return level(sound[first : last + 1])


def loudest(sound: Sound) -> float:
    """Root mean square of the loudest half second; of all of it where it is shorter."""
    half = SAMPLE_RATE // 2
    whole = sound[: max(1, len(sound) // half) * half]
    return max(level(part) for part in np.array_split(whole, max(1, len(whole) // half)))


def ratio(decibels: float) -> float:
    """Amplitude ratio of a level difference."""
    return float(10 ** (decibels / 20))


def as_loud(sound: Sound, decibels: float) -> Sound:
    """A recording whose loudest half second has this level in dBFS."""
    scaled: Sound = sound * np.float32(ratio(decibels) / loudest(sound))
    return scaled


def as_speech(sound: Sound, rng: np.random.Generator) -> Sound:
    """A recording as loud as speech, give or take `LOUDNESS_DB`."""
    return as_loud(sound, SPEECH_DBFS + rng.uniform(-LOUDNESS_DB, LOUDNESS_DB))


def silence(seconds: float) -> Sound:
    """Nothing, for so long."""
    return np.zeros(max(0, round(seconds * SAMPLE_RATE)), np.float32)


def fade(sound: Sound, seconds: float = 0.02) -> Sound:
    """A recording that comes and goes within so many seconds."""
    count = min(round(seconds * SAMPLE_RATE), len(sound) // 2)
    edges = np.ones(len(sound), np.float32)
    edges[:count] = (np.arange(count) + 0.5) / max(count, 1)
    edges[len(sound) - count :] = edges[:count][::-1]
    return sound * edges


def background(sounds: Sequence[Sound], samples: int, rng: np.random.Generator) -> Sound:
    """So many samples of background: every 15 s a recording drawn at random, from anywhere in it, round and round.

    Each is brought to a loudest half second of 1, so that what uses it has to set the level. Where one ends and the
    next begins, and where a recording goes round, it fades for 20 ms: there is no click.
    """
    return draw_background(sounds, samples, rng)[0]


def draw_background(sounds: Sequence[Sound], samples: int, rng: np.random.Generator) -> tuple[Sound, list[int]]:
    """The same, and which recording was drawn for each 15 s of it."""
    if not sounds:
        raise DataError("A background needs at least one recording of noise or speech.")
    parts: list[Sound] = []
    drawn: list[int] = []
    length = BED_SECONDS * SAMPLE_RATE
    for start in range(0, samples, length):
        drawn.append(int(rng.integers(len(sounds))))
        chosen = sounds[drawn[-1]]
        turned = np.roll(fade(chosen), -int(rng.integers(len(chosen))))
        parts.append(fade(np.resize(turned / np.float32(loudest(chosen)), min(length, samples - start))))
    return (np.concatenate(parts) if parts else silence(0)), drawn


def room(
    rng: np.random.Generator, decay: tuple[float, float] = (0.2, 0.6), direct_db: tuple[float, float] = (0.0, 10.0)
) -> Sound:
    """Impulse response of a made-up room: the direct sound, then white noise that decays exponentially.

    Parameters
    ----------
    decay
        Seconds in which the sound falls by 60 dB: the shortest and the longest.
    direct_db
        Energy of the direct sound over that of the rest together, which begins 2 to 10 ms after it.
    """
    seconds = rng.uniform(*decay)
    count = round(seconds * SAMPLE_RATE)
    tail = rng.standard_normal(count) * 10 ** (-3 * np.arange(count) / count)
    tail *= ratio(-rng.uniform(*direct_db)) / np.sqrt(np.sum(np.square(tail)))
    gap = int(rng.uniform(0.002, 0.010) * SAMPLE_RATE)
    return np.concatenate(([1.0], np.zeros(gap), tail)).astype(np.float32)


def in_room(sound: Sound, response: Sound) -> Sound:
    """A recording as it sounds in a room, with what rings after it: (samples + response - 1,)."""
    length = len(sound) + len(response) - 1
    size = 1 << (length - 1).bit_length()
    ringing = np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(response, size), size)[:length]
    return ringing.astype(np.float32)


def pcm(sound: Sound) -> NDArray[np.int16]:
    """16-bit samples; what is beyond full scale is clipped."""
    samples: NDArray[np.int16] = np.clip(np.rint(sound * np.float32(32_767)), -32_768, 32_767).astype(np.int16)
    return samples
