"""What espeak-ng says in a training: the keywords, what comes straight before them, and what sounds like them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.speech.espeak import speak
from auricle.speech.other_speech import synthesise_others
from auricle.speech.voices import choose_voices, utterance

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""
Sound = NDArray[np.float32]

GREETINGS = ("hey", "okay", "hi", "hello")
"""What people say before a wake word."""
MARGIN_SAMPLES = 1_600
"""Silence around a take."""


def speak_words(
    words: Sequence[str], voices: int, takes: int, seed: int, progress: Progress = lambda *_: None
) -> list[tuple[str, Sound]]:
    """Have so many voices say every word, `takes` times each.

    Returns
    -------
    list[tuple[str, Sound]]
        Words and their takes (samples,) at 16 kHz with silence around, by voice.
    """
    said: list[tuple[str, Sound]] = []
    texts = [word for word in words for _ in range(takes)]
    for done, voice in enumerate(choose_voices(voices, seed)):
        rng = np.random.default_rng([seed, 8, done])
        utterances = [utterance(voice, text, rng) for text in texts]
        said += [(word, padded(sound)) for word, sound in zip(texts, speak(voice.espeak_name, utterances), strict=True)]
        progress("synthesising words", done + 1, voices)
    return said


def speak_greetings(voices: int, seed: int, progress: Progress = lambda *_: None) -> list[Sound]:
    """Have so many voices say what comes before a wake word, once each: takes (samples,) with silence around."""
    return [sound for _, sound in speak_words(GREETINGS, voices, 1, seed, progress)]


def speak_alike(
    words: Sequence[str], voices: int, takes: int, seed: int, progress: Progress = lambda *_: None
) -> list[Sound]:
    """Have so many voices say what the words are mistaken for, and other languages, each text `takes` times.

    Returns
    -------
    list[Sound]
        Takes (samples,) at 16 kHz with silence around.
    """
    said = synthesise_others(
        words,
        voices,
        takes,
        seed,
        progress=lambda done, total: progress("synthesising other speech", done, total),
    )
    return [padded(take.audio.astype(np.float32) / np.float32(32_768)) for take in said]


def padded(sound: Sound) -> Sound:
    """A take with silence around it."""
    return np.pad(sound, MARGIN_SAMPLES)
