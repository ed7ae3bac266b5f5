"""Which scenes are composed of the recordings: the protocol of docs/hearing.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from auricle.errors import DataError
from auricle.hearing.scenes import (
    Scene,
    keywords_after_words,
    keywords_in_noise,
    keywords_over_speech,
    noise_alone,
    run_together,
    without_keywords,
)
from auricle.hearing.sounds import Sound, Take
from auricle.hearing.wake_scenes import wake_over_speech, wake_then_command
from auricle.speech.audio import SAMPLE_RATE
from auricle_edge.evaluate.around import Compose, scenes_around
from auricle_edge.evaluate.sources import Sources

SCENE_WORDS = 50
"""Keywords of a scene: about three minutes."""
SCENE_SECONDS = 300.0
"""Of a scene without keywords."""


@dataclass(frozen=True)
class Plan:
    """How much of what."""

    minutes: float = 20.0
    """Of each kind of sound without keywords, at most; noise and words run together are made to last so long."""
    passes: int = 1
    """How often each keyword is said in each kind of scene, and each recording without keywords heard at most."""
    snr: tuple[float, float] = (5.0, 20.0)
    """dB of the word over noise."""
    over_speech: tuple[float, float] = (5.0, 15.0)
    """dB of the word over running speech."""
    rooms: bool = False
    """Keywords in rooms, too."""
    synthetic: tuple[str, ...] = ()
    """Kinds of sound from a loudspeaker (`around.AROUND`) that are made, not recorded."""


def plan_scenes(sources: Sources, wake: Sequence[str], plan: Plan) -> list[Compose]:
    """What makes each scene, given a generator; the scenes are short, so that memory stays small.

    What a loudspeaker plays comes last, so that the other scenes are the same without.

    Raises
    ------
    DataError
        There is no noise to compose with, nobody who speaks on television, or nothing to compose.
    """
    if not sources.noise:
        raise DataError("There is no background noise: name a folder with --noise, or choose another --part.")
    commands, over = _with_commands(sources, wake, plan)
    parts, lengths = _parts(sources.keywords) * plan.passes, _lengths(plan.minutes * 60)
    around = scenes_around(sources, plan.synthetic, parts, lengths)
    made = [*_with_keywords(sources, plan), *commands, *_without(sources, plan), *over, *around]
    if not made:
        raise DataError("There is nothing to judge by: name folders with --keywords, --speech or --words.")
    return made


def compose_scene(made: Sequence[Compose], number: int, seed: int) -> Scene:
    """Scene `number` of a plan; the same whatever was composed before."""
    return made[number](np.random.default_rng((seed, number)))


def _with_keywords(sources: Sources, plan: Plan) -> list[Compose]:
    noise = sources.noise
    kinds: list[Callable[..., Scene]] = [partial(_in_noise, noise=noise, snr=plan.snr, rooms=False)]
    if plan.rooms:
        kinds.append(partial(_in_noise, noise=noise, snr=plan.snr, rooms=True))
    if sources.speech:
        kinds.append(partial(_over_speech, speech=sources.speech, snr=plan.over_speech))
    if sources.words:
        kinds.append(partial(_after_words, others=sources.words, noise=noise, snr=plan.snr))
    parts = _parts(sources.keywords)
    return [partial(kind, takes=part) for kind in kinds for _ in range(plan.passes) for part in parts]


def _in_noise(
    rng: np.random.Generator, *, takes: Sequence[Take], noise: Sequence[Sound], snr: tuple[float, float], rooms: bool
) -> Scene:
    return keywords_in_noise(takes, noise, rng, snr=snr, rooms=rooms)


def _over_speech(
    rng: np.random.Generator, *, takes: Sequence[Take], speech: Sequence[Sound], snr: tuple[float, float]
) -> Scene:
    return keywords_over_speech(takes, speech, rng, snr=snr)


def _after_words(
    rng: np.random.Generator,
    *,
    takes: Sequence[Take],
    others: Sequence[Take],
    noise: Sequence[Sound],
    snr: tuple[float, float],
) -> Scene:
    return keywords_after_words(takes, others, noise, rng, snr=snr)


def _with_commands(sources: Sources, wake: Sequence[str], plan: Plan) -> tuple[list[Compose], list[Compose]]:
    """In noise, and over speech: these come last, so that the other scenes are the same without speech."""
    wakes = [take for take in sources.keywords if take.word in wake]
    commands = [take for take in sources.keywords if take.word not in wake]
    if not wakes:
        return [], []
    parts = [part for _ in range(plan.passes) for part in _parts(commands)]
    said: list[Compose] = [
        partial(_commands, wakes=wakes, commands=part, noise=sources.noise, snr=plan.snr) for part in parts
    ]
    over: list[Compose] = [
        partial(_commands_over, wakes=wakes, commands=part, speech=sources.speech, snr=plan.over_speech)
        for part in parts
        if sources.speech
    ]
    return said, over


def _commands(
    rng: np.random.Generator,
    *,
    wakes: Sequence[Take],
    commands: Sequence[Take],
    noise: Sequence[Sound],
    snr: tuple[float, float],
) -> Scene:
    return wake_then_command(wakes, commands, noise, rng, snr=snr)


def _commands_over(
    rng: np.random.Generator,
    *,
    wakes: Sequence[Take],
    commands: Sequence[Take],
    speech: Sequence[Sound],
    snr: tuple[float, float],
) -> Scene:
    return wake_over_speech(wakes, commands, speech, rng, snr=snr)


def _without(sources: Sources, plan: Plan) -> list[Compose]:
    noise, seconds = sources.noise, plan.minutes * 60
    kinds = {
        "speech": sources.speech,
        "words": [take.sound for take in sources.words],
        "languages": [take.sound for take in sources.languages],
    }
    made: list[Compose] = [
        partial(_other, kind=kind, sounds=part, noise=noise, snr=plan.snr)
        for kind, sounds in kinds.items()
        for part in _stretches([*sounds] * plan.passes, seconds)
    ]
    for length in _lengths(seconds):
        if sources.words:
            made.append(partial(_together, words=sources.words, noise=noise, seconds=length))
        made.append(partial(_noise, noise=noise, seconds=length))
    return made


def _other(
    rng: np.random.Generator, *, kind: str, sounds: Sequence[Sound], noise: Sequence[Sound], snr: tuple[float, float]
) -> Scene:
    return without_keywords(kind, sounds, noise, rng, snr=snr)


def _together(rng: np.random.Generator, *, words: Sequence[Take], noise: Sequence[Sound], seconds: float) -> Scene:
    return run_together(words, noise, rng, seconds=seconds)


def _noise(rng: np.random.Generator, *, noise: Sequence[Sound], seconds: float) -> Scene:
    return noise_alone(noise, rng, seconds=seconds)


def _parts(takes: Sequence[Take]) -> list[list[Take]]:
    """Takes of all words and speakers mixed, in parts of at most `SCENE_WORDS`."""
    if not takes:
        return []
    mixed = [takes[i] for i in np.random.default_rng(0).permutation(len(takes))]
    count = -(-len(mixed) // SCENE_WORDS)
    return [mixed[i::count] for i in range(count)]


def _lengths(seconds: float) -> list[float]:
    count = max(1, round(seconds / SCENE_SECONDS))
    return [seconds / count] * count


def _stretches(sounds: Sequence[Sound], seconds: float) -> list[list[Sound]]:
    """Recordings in random order for about so many seconds with the pauses between them, in parts for one scene."""
    pause = 0.9
    parts: list[list[Sound]] = []
    length = part = 0.0
    for index in np.random.default_rng(0).permutation(len(sounds)):
        if length >= seconds:
            break
        if not parts or part >= SCENE_SECONDS:
            parts.append([])
            part = 0.0
        parts[-1].append(sounds[index])
        part += len(sounds[index]) / SAMPLE_RATE + pause
        length += len(sounds[index]) / SAMPLE_RATE + pause
    return parts
