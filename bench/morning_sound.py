"""A morning in a kitchen: quiet, noise, people who talk and read, and now and then a wake word and a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from auricle.hearing.scenes import (
    Scene,
    end_to_end,
    keywords_after_words,
    keywords_in_noise,
    keywords_over_speech,
    noise_alone,
    run_together,
    without_keywords,
)
from auricle.hearing.sounds import pcm
from auricle.hearing.utterances import Stretch
from auricle.hearing.wake_scenes import wake_then_command
from auricle.speech.audio import SAMPLE_RATE
from auricle_edge.evaluate.sources import Sources

T = TypeVar("T")

COMMANDS, WAKES = 3, 2
"""In each part of a morning: commands after a wake word; wake words in noise, over speech and after other words."""
QUIET = "quiet"
_QUIET_SECONDS = 40.0
_HISS = 2e-4


def a_morning(sources: Sources, wake: Sequence[str], minutes: float, seed: int) -> Scene:
    """Parts one after the other until so many minutes are full, each in another order.

    Every part has a quiet stretch, noise, reading, other words one by one and run together, another language where
    there is one, commands after wake words, and wake words in noise, over speech and straight after other words.
    """
    scenes: list[Scene] = []
    length, number = 0, 0
    while length < minutes * 60 * SAMPLE_RATE:
        part = _part(sources, wake, np.random.default_rng((seed, number)))
        scenes.append(part)
        length, number = length + len(part.samples), number + 1
    return end_to_end(scenes)


def _part(sources: Sources, wake: Sequence[str], rng: np.random.Generator) -> Scene:
    noise = sources.noise
    wakes = [take for take in sources.keywords if take.word in wake]
    commands = [take for take in sources.keywords if take.word not in wake]
    words = [take.sound for take in sources.words]
    makers: list[Callable[[], Scene]] = [
        lambda: _quiet(rng),
        lambda: noise_alone(_some(noise, 2, rng), rng, seconds=40),
        lambda: without_keywords("speech", _some(sources.speech, 5, rng), noise, rng),
        lambda: without_keywords("words", _some(words, 12, rng), noise, rng),
        lambda: run_together(sources.words, noise, rng, seconds=20),
        lambda: wake_then_command(wakes, _some(commands, COMMANDS, rng), noise, rng),
        lambda: keywords_in_noise(_some(wakes, WAKES, rng), noise, rng),
        lambda: keywords_over_speech(_some(wakes, WAKES, rng), sources.speech, rng),
        lambda: keywords_after_words(_some(wakes, WAKES, rng), sources.words, noise, rng),
    ]
    if sources.languages:
        foreign = [take.sound for take in sources.languages]
        makers.append(lambda: without_keywords("languages", _some(foreign, 12, rng), noise, rng))
    return end_to_end([_settled(makers[place](), rng) for place in rng.permutation(len(makers))])


def _some(everything: Sequence[T], count: int, rng: np.random.Generator) -> list[T]:
    return [everything[place] for place in rng.choice(len(everything), min(count, len(everything)), replace=False)]


def _quiet(rng: np.random.Generator) -> Scene:
    samples = pcm(rng.normal(0, _HISS, round(_QUIET_SECONDS * SAMPLE_RATE)).astype(np.float32))
    return Scene(samples, stretches=(Stretch(QUIET, 0, len(samples)),))


def _settled(scene: Scene, rng: np.random.Generator) -> Scene:
    """A scene with four quiet seconds after it, so that a window that it opened is closed before the next begins."""
    pause = pcm(rng.normal(0, _HISS, 4 * SAMPLE_RATE).astype(np.float32))
    return replace(scene, samples=np.concatenate((scene.samples, pause)))
