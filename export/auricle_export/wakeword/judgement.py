"""What a finished wake word is worth: heard of voices and people that were left out, and mistaken for which texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.curve import Counts, curve_of
from auricle.hearing.sounds import Take
from auricle.packs.manifest import Listening
from auricle_export.pretrain.streams import Recognise, Streams
from auricle_export.wakeword.voices_sound import SpokenPart

JUDGES_VOICES = "synthetic voices that were left out of training"
JUDGES_PEOPLE = "people, and synthetic voices, that were left out of training"
CONFUSIONS = 12
"""Texts that are named."""


@dataclass(frozen=True)
class Mistaken:
    """A text that differs from every phrase, and how strongly the model takes it for one."""

    text: str
    kind: str
    posterior: float
    """The mean over the voices of the highest one in any window."""
    phrase: str


@dataclass(frozen=True, eq=False)
class Judgement:
    """On streams of what was not trained on."""

    counts: Counts
    """Of the phrases alone, at every threshold."""
    chosen: Counts
    """The same with the pack's thresholds: one row."""
    judges: str
    people: int
    """Who say a phrase in recordings."""
    voices: int
    mistaken: tuple[Mistaken, ...]
    """The worst first."""


def judge_phrases(
    phrases: Sequence[str], streams: Streams, recognise: Recognise, listening: Listening, spoken: SpokenPart
) -> Judgement:
    """Let a model listen to streams of the test part.

    Parameters
    ----------
    phrases
        The wake words.
    streams
        Of the test part, heard by the pack's rule.
    recognise
        The model.
    listening
        The pack's thresholds.
    spoken
        What the voices of the test part say.
    """
    columns = [streams.labels.index(phrase) for phrase in phrases]
    rows = [posteriors[:, columns] for posteriors in streams.posteriors(recognise)]
    counts = streams.count(rows, tuple(phrases))
    levels = np.array([[listening.thresholds[phrase] for phrase in phrases]])
    chosen = curve_of(rows, streams.scenes, tuple(phrases), streams.rule, levels)
    speakers = {word.speaker for word in counts.words if word.word in phrases}
    espeak, natural = (speakers & {take.speaker for take in takes} for takes in (spoken.phrases, spoken.natural))
    voices = espeak | natural
    return Judgement(
        counts=counts,
        chosen=chosen,
        judges=JUDGES_PEOPLE if speakers - voices else JUDGES_VOICES,
        people=len(speakers - voices),
        voices=len(espeak) + (sum(each.voices for each in spoken.sources) if natural else 0),
        mistaken=_mistaken(phrases, columns, streams, recognise, spoken),
    )


def _mistaken(
    phrases: Sequence[str], columns: Sequence[int], streams: Streams, recognise: Recognise, spoken: SpokenPart
) -> tuple[Mistaken, ...]:
    found: dict[tuple[str, str], list[NDArray[np.float32]]] = {}
    for kind, takes in (("sounds like it", spoken.alike), ("word", spoken.words), ("other language", spoken.foreign)):
        for take in takes:
            found.setdefault((take.word, kind), []).append(_highest(take, streams, recognise)[columns])
    rows = []
    for (text, kind), posteriors in found.items():
        mean = np.mean(posteriors, axis=0)
        rows.append(Mistaken(text, kind, float(mean.max()), phrases[int(mean.argmax())]))
    return tuple(sorted(rows, key=lambda row: -row.posterior)[:CONFUSIONS])


def _highest(take: Take, streams: Streams, recognise: Recognise) -> NDArray[np.float32]:
    """The highest posterior of each label in any window over a take, with silence around it."""
    silence = streams.longest, streams.frontend.task.frames // 2
    heard = streams.over([take.sound], silence).posteriors(recognise)[0]
    highest: NDArray[np.float32] = heard.max(axis=0)
    return highest
