"""Sound of a room in which a device answers while somebody talks: microphone, reference, and what each is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.scenes import Scene, keywords_in_noise
from auricle.hearing.sounds import SPEECH_DBFS, Sound, Take, as_loud, in_room, level, pcm, ratio, room
from auricle.speech.audio import SAMPLE_RATE

ALONE_SECONDS = 10
"""The answer plays alone for so long, then somebody talks over it."""
DELAY_SECONDS = (0.001, 0.010)
"""From the card's output to the first sound of it at the microphone."""
NOISE_DBFS = -60.0
LOUDEST_DBFS = -12.0
"""Loudest half second of an echo: a microphone's gain is set so that the device's own answer is not clipped."""
DRIVE = 3.0
"""A loudspeaker that distorts plays tanh(3 x) / 3: of a sample at half of full scale 60 %."""

Samples = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Case:
    """What the two channels have (n,), and of what the microphone's is the sum."""

    near: Samples
    """Speech and noise alone."""
    echo: Sound
    """In steps of int16."""
    far: Samples
    """The reference."""

    @property
    def microphone(self) -> Samples:
        """The sum, clipped."""
        heard: Samples = np.clip(np.rint(self.near + self.echo), -32_768, 32_767).astype(np.int16)
        return heard

    def reduction(self, left: Samples, near: Samples, start: float, end: float) -> float:
        """Echo return loss enhancement in dB between two seconds: by how much less of the echo is left.

        Parameters
        ----------
        left
            What a canceller leaves of the microphone.
        near
            What it leaves of the near end alone.
        """
        part = slice(round(start * SAMPLE_RATE), round(end * SAMPLE_RATE))
        rest = left[part].astype(np.float64) - near[part]
        before = np.sum(np.square(self.echo[part], dtype=np.float64))
        return float(10 * np.log10(before / max(1.0, np.sum(np.square(rest)))))


def double_talk(
    answers: Sequence[Sound], talk: Sequence[Sound], rng: np.random.Generator, decibels: float, *, distorts: bool
) -> Case:
    """Somebody's reading over an answer whose echo has so many decibels more than the reading, 30 seconds."""
    count = 3 * ALONE_SECONDS * SAMPLE_RATE
    near = as_loud(_running(talk, count, rng), SPEECH_DBFS - _down(decibels))
    echo, far = _played(_running(answers, count, rng), rng, distorts=distorts)
    echo = echo * np.float32(level(near) * ratio(decibels) / level(echo))
    near[: ALONE_SECONDS * SAMPLE_RATE] = 0
    near = near + rng.standard_normal(count).astype(np.float32) * np.float32(ratio(NOISE_DBFS))
    return Case(pcm(near), echo * np.float32(32_767), far)


def words_over_answer(
    takes: Sequence[Take],
    noise: Sequence[Sound],
    answers: Sequence[Sound],
    rng: np.random.Generator,
    decibels: float,
) -> tuple[Scene, Case]:
    """Every take once in noise, 4.5 to 6 s apart, over an answer that goes on, from a loudspeaker that distorts."""
    scene = keywords_in_noise(takes, noise, rng, snr=(10.0, 20.0), pauses=(4.5, 6.0))
    near = scene.samples.astype(np.float32) / np.float32(32_767) * np.float32(ratio(-_down(decibels)))
    echo, far = _played(_running(answers, len(near), rng), rng, distorts=True)
    words = np.concatenate([near[word.start : word.end] for word in scene.words])
    echo = echo * np.float32(level(words) * ratio(decibels) / level(echo))
    return scene, Case(pcm(near), echo * np.float32(32_767), far)


def _down(decibels: float) -> float:
    """By how much less everything is amplified, so that the echo is not clipped."""
    return max(0.0, SPEECH_DBFS + decibels - LOUDEST_DBFS)


def _played(answer: Sound, rng: np.random.Generator, *, distorts: bool) -> tuple[Sound, Samples]:
    """The echo of an answer in a made room, and the reference."""
    far = as_loud(answer, -16.0)
    sent = np.tanh(DRIVE * far) / np.float32(DRIVE) if distorts else far
    way = np.concatenate((np.zeros(round(rng.uniform(*DELAY_SECONDS) * SAMPLE_RATE), np.float32), room(rng)))
    return in_room(sent, way)[: len(far)], pcm(far)


def _running(sounds: Sequence[Sound], count: int, rng: np.random.Generator) -> Sound:
    """Recordings one after the other, in random order, again and again."""
    order = rng.permutation(len(sounds))
    return np.resize(np.concatenate([as_loud(sounds[i], SPEECH_DBFS) for i in order]), count).astype(np.float32)
