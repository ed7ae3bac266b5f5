"""Streams of wake words and commands, in noise and over other people's running speech."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from auricle.errors import DataError
from auricle.hearing.sounds import Sound, Take, shuffle
from auricle.hearing.utterances import Range, Scene, Uttered, join, laid_out, utter

WAKE, WAKE_ALONE, COMMAND = "wake", "wake alone", "command"
"""Kinds of word: `WAKE` is followed by its command, `WAKE_ALONE` by nothing."""
OVER_SPEECH: Mapping[str, str] = {WAKE: "wake over", WAKE_ALONE: "alone over", COMMAND: "command over"}
"""The same kinds where somebody else talks on."""


def wake_then_command(
    wakes: Sequence[Take],
    commands: Sequence[Take],
    noise: Sequence[Sound],
    rng: np.random.Generator,
    *,
    snr: Range = (5.0, 20.0),
    gap: Range = (0.1, 1.5),
    alone: float = 0.2,
    pauses: Range = (4.5, 6.0),
) -> Scene:
    """Every command once, `gap` seconds after a wake word; a share of `alone` of all wake words have no command.

    The wake words are taken in turn, each as often as needed. The pauses are longer than a window of commands. Who
    says the command is in most recordings not who said the wake word.

    Raises
    ------
    DataError
        There is no wake word, or none would have a command.
    """
    if not wakes or not 0 <= alone < 1:
        raise DataError("A scene of commands needs a wake word, and a share of them that have a command.")
    turn = shuffle(wakes, rng)
    said: list[Uttered] = []
    waiting = shuffle(commands, rng)
    while waiting:
        wake = turn[len(said) % len(turn)]
        if rng.random() < alone:
            said.append(utter(wake, WAKE_ALONE, rng))
        else:
            said.append(join(utter(wake, WAKE, rng), utter(waiting.pop(), COMMAND, rng), rng.uniform(*gap)))
    return laid_out(said, noise, rng, snr, pauses)


def wake_over_speech(
    wakes: Sequence[Take],
    commands: Sequence[Take],
    speech: Sequence[Sound],
    rng: np.random.Generator,
    *,
    snr: Range = (5.0, 15.0),
    alone: float = 0.4,
) -> Scene:
    """The same over other people's running speech, fainter than the words by `snr` dB, which goes on in every window.

    Raises
    ------
    DataError
        As of `wake_then_command`.
    """
    scene = wake_then_command(wakes, commands, speech, rng, snr=snr, alone=alone)
    return replace(scene, words=tuple(replace(word, kind=OVER_SPEECH[word.kind]) for word in scene.words))
