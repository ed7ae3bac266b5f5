"""The sound that listeners are compared on: `hey jarvis` in three forms, and hours in which nobody says it.

`bench/hearing.py` hears what `plan_scenes` has, `bench/wake_peers.py` what `wake_scenes` has, which is more. Recordings
hold only "jarvis", and nobody recorded a "hey": espeak-ng says it, in front of a recording or with the whole phrase.
What each form favours is in docs/hearing.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from auricle.errors import DataError
from auricle.hearing.scenes import Scene, keywords_after_words, keywords_in_noise, keywords_over_speech
from auricle.hearing.sounds import Sound, Take, active_level, silence, word_span
from auricle.packs.pack import Pack, load_pack
from auricle.speech.espeak import speak
from auricle.speech.voices import Voice, choose_voices, utterance
from auricle_edge.evaluate.plan import SCENE_WORDS, Compose, Plan, compose_scene
from auricle_edge.evaluate.plan import plan_scenes as plan_all_scenes
from auricle_edge.evaluate.sources import Folders, Sources, read_sources

TARGET = "jarvis"
"""The word that Auricle's packs and the peers' models share."""
ALONE, BEFORE, SYNTHETIC = "jarvis", "hey + jarvis", "hey jarvis, espeak"
"""Its forms: recorded; recorded with espeak-ng's "hey" before it; wholly espeak-ng's."""
GAP = (0.03, 0.12)
"""Seconds between "hey" and "jarvis"."""
_MARGIN = 0.25
WITH_STRANGERS = ("home-more", "gsc35", "digits")
"""Shipped packs that people of `gsc` trained."""
AGAIN = 8
"""Most times that a recording without the phrase is heard, each time at another level and in other noise."""


@dataclass(frozen=True)
class Heard:
    """A scene on disk."""

    scene: Scene
    """Without its samples."""
    sound: Path
    """int16 at 16 kHz, without a header."""
    seconds: float


def read_recordings(data: Path, keywords: Sequence[str]) -> Sources:
    """What no pack of `load_stranger` was trained on: `jarvis`, words that nobody listens for, readings and noises.

    Of `gsc-more`, `wakewords`, `arabic`, `stream-more` and the noises the test part; `gsc` and `stream` whole, since
    packs that `load_stranger` loads are not trained on them.

    Parameters
    ----------
    data
        Folder with these folders.
    keywords
        Words that some listener listens for: no other word is one of them.

    Raises
    ------
    DataError
        A folder is missing or empty.
    """
    listened = (TARGET, *keywords)
    never = never_heard(data, (data / "wakewords",), listened)
    return replace(never, keywords=tuple(take for take in never.keywords if take.word == TARGET))


def load_stranger(name: str) -> Pack:
    """Load a pack that no person of `gsc` trained, as far as it says what trained it.

    Raises
    ------
    DataError
        Somebody of `gsc` did, or a pack that they trained was where it began.
    PackError
        It cannot be read.
    """
    pack = load_pack(name)
    sources = {word for start in pack.manifest.start.values() for word in re.split(r"[ ,;/]+", start.data)}
    if sources & {"gsc", *WITH_STRANGERS}:
        raise DataError(
            f"People of gsc trained the pack {pack.manifest.name}, so that it cannot be judged on strangers here: take "
            "home, gsc12-res or gsc12."
        )
    return pack


def never_heard(data: Path, folders: tuple[Path, ...], keywords: Sequence[str]) -> Sources:
    """Keywords of these folders and all that is no keyword, by people, readers and noises that train no such pack.

    Raises
    ------
    DataError
        A folder is missing or empty.
    """
    judging = Folders(
        keywords=folders,
        words=(data / "gsc-more",),
        languages=(data / "arabic",),
        speech=(data / "stream-more" / "speech",),
        noise=(data / "gsc" / "_background_noise_",),
        left_out=(data / "gsc",),
    )
    test = read_sources(judging, keywords, ("test",))
    whole = read_sources(Folders(words=(data / "gsc",), speech=(data / "stream" / "speech",)), keywords, ())
    return replace(test, words=test.words + whole.words, speech=test.speech + whole.speech)


def forms_of(takes: Sequence[Take], voices: int, seed: int) -> dict[str, list[Take]]:
    """The forms of the phrase, by name; those with espeak-ng only where there are voices.

    Raises
    ------
    DataError
        espeak-ng is not installed or fails.
    """
    forms = {ALONE: list(takes)}
    if not voices:
        return forms
    rng = np.random.default_rng((seed, 1))
    heys, phrases = [], []
    for voice in choose_voices(voices, seed):
        hey, phrase = _said(voice, rng)
        heys.append(hey)
        phrases.append(Take(TARGET, voice.name, _padded(phrase)))
    before = [_after(heys[i % len(heys)], take, rng) for i, take in enumerate(takes)]
    return {**forms, BEFORE: before, SYNTHETIC: phrases}


def _said(voice: Voice, rng: np.random.Generator) -> list[Sound]:
    return list(speak(voice.espeak_name, [utterance(voice, text, rng) for text in ("hey", "hey jarvis")]))


def _after(hey: Sound, take: Take, rng: np.random.Generator) -> Take:
    """A recording with a "hey" before it that is as loud."""
    first, last = word_span(take.sound)
    alike = hey * np.float32(active_level(take.sound) / active_level(hey))
    return replace(
        take, sound=_padded(np.concatenate((alike, silence(rng.uniform(*GAP)), take.sound[first : last + 1])))
    )


def _padded(sound: Sound) -> Sound:
    return np.concatenate((silence(_MARGIN), sound, silence(_MARGIN)))


def plan_scenes(sources: Sources, forms: Mapping[str, Sequence[Take]], minutes: float) -> list[Compose]:
    """What makes each scene: every form in noise and over speech, then the kinds of sound without it."""
    scenes: list[Compose] = []
    for name, takes in forms.items():
        if takes and sources.noise:
            scenes.append(partial(_in_noise, form=name, takes=takes, sources=sources))
        if takes and sources.speech:
            scenes.append(partial(_over_speech, form=name, takes=takes, sources=sources))
    return scenes + plan_all_scenes(replace(sources, keywords=()), (), Plan(minutes=minutes))


def named_form(scene: Scene, form: str) -> Scene:
    """A scene whose words' kind is led by their form."""
    return replace(scene, words=tuple(replace(word, kind=f"{form}: {word.kind}") for word in scene.words))


def write_scenes(scenes: Sequence[Compose], folder: Path, seed: int) -> Iterator[Heard]:
    """Compose scenes one after another, each into a file of its own."""
    for number in range(len(scenes)):
        scene = compose_scene(scenes, number, seed)
        path = folder / f"scene{number}.raw"
        scene.samples.astype("<i2").tofile(path)
        yield Heard(replace(scene, samples=np.zeros(0, np.int16)), path, scene.hours * 3600)


def recordings_of(data: Path, listened: Sequence[str]) -> Sources:
    """Recordings that trained no pack of `load_stranger`: the test part, and of what that lacks the validation part.

    Of the 12 people of `arabic` none is in the test part, and of readers it has few: two people of `arabic` and the
    readers of the validation part have chosen thresholds of packs, and no weights.

    Parameters
    ----------
    data
        Folder with `gsc`, `gsc-more`, `wakewords`, `arabic`, `stream` and `stream-more`.
    listened
        Words that some listener listens for.

    Raises
    ------
    DataError
        A folder is missing or empty, or there is no take of `jarvis` in the test part.
    """
    test = read_recordings(data, listened)
    validation = Folders(languages=(data / "arabic",), speech=(data / "stream-more" / "speech",))
    more = read_sources(validation, listened, ("validation",))
    return replace(
        test,
        languages=(*test.languages, *more.languages),
        speech=(*test.speech, *more.speech),
        names={**test.names, **more.names},
    )


def takes_of(recorded: Sequence[Take], voices: int, passes: int, seed: int) -> dict[str, list[Take]]:
    """Takes by form of the phrase; each recording `passes` times, every time with another voice's "hey".

    Raises
    ------
    DataError
        espeak-ng is not installed or fails.
    """
    forms: dict[str, list[Take]] = {}
    for number in range(passes):
        for form, takes in forms_of(recorded, voices, seed + number).items():
            forms.setdefault(form, []).extend(takes)
    return forms


def wake_scenes(sources: Sources, forms: Mapping[str, Sequence[Take]], minutes: float) -> list[Compose]:
    """What makes each scene: every form in noise, over speech and after words, then each kind of sound without it.

    Parameters
    ----------
    minutes
        Of each kind of sound without the phrase, at most.

    Raises
    ------
    DataError
        There is no noise.
    """
    compose = (
        partial(_in_noise, sources=sources),
        partial(_over_speech, sources=sources),
        partial(_after_words, sources=sources),
    )
    said = [
        partial(surrounded, form=form, takes=takes[start : start + SCENE_WORDS])
        for form, takes in forms.items()
        for surrounded in compose
        for start in range(0, len(takes), SCENE_WORDS)
    ]
    return [*said, *plan_all_scenes(replace(sources, keywords=()), (), Plan(minutes=minutes, passes=AGAIN))]


def _in_noise(rng: np.random.Generator, *, form: str, takes: Sequence[Take], sources: Sources) -> Scene:
    return named_form(keywords_in_noise(takes, sources.noise, rng), form)


def _over_speech(rng: np.random.Generator, *, form: str, takes: Sequence[Take], sources: Sources) -> Scene:
    return named_form(keywords_over_speech(takes, sources.speech, rng), form)


def _after_words(rng: np.random.Generator, *, form: str, takes: Sequence[Take], sources: Sources) -> Scene:
    return named_form(keywords_after_words(takes, sources.words, sources.noise, rng), form)


def target_of(labels: Sequence[str], phrase: str) -> str | None:
    """The label that stands for the phrase, or else for the word that ends it; None where a model has neither."""
    alike = [label for label in labels if label.replace("_", " ") == phrase]
    return (alike or [label for label in labels if label.replace("_", " ").split()[-1:] == [TARGET]] or [None])[0]
