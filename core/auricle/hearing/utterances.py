"""What is said in one go, and how it is laid over a background: what scenes are put together from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.sounds import (
    QUIETEST_DB,
    Sound,
    Take,
    active_level,
    as_speech,
    background,
    fingerprint,
    loudest,
    pcm,
    ratio,
    silence,
    word_span,
)
from auricle.speech.audio import SAMPLE_RATE

Range = tuple[float, float]


@dataclass(frozen=True)
class Spoken:
    """A keyword in a scene."""

    word: str
    start: int
    """First sample of the word itself, not of its recording."""
    end: int
    """Last sample of the word itself."""
    speaker: str
    kind: str
    """Of the scene it is in."""
    snr: float
    """dB from the background's loudest half second around the word to the word's own level."""
    recording: str = ""
    """The `fingerprint` of the recording that it is; "": not known."""


@dataclass(frozen=True)
class Stretch:
    """A part of a scene without keywords."""

    kind: str
    """`speech` (running), `words` (other ones), `run together`, `languages`, `noise`."""
    start: int
    end: int
    """First sample after it."""


@dataclass(frozen=True)
class Piece:
    """A recording in sound without keywords; what lies under it as background does not count."""

    source: str
    """Its `fingerprint`, or its name."""
    start: int
    end: int
    """First sample after it."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Sound, and what is in it."""

    samples: NDArray[np.int16]
    """(S,) at 16 kHz."""
    words: tuple[Spoken, ...] = ()
    """The keywords, by their start."""
    stretches: tuple[Stretch, ...] = ()
    """Where no keyword is said."""
    pieces: tuple[Piece, ...] = ()
    """Of which recordings the stretches are made, by their start."""

    @property
    def hours(self) -> float:
        """How long it is."""
        return len(self.samples) / SAMPLE_RATE / 3600


@dataclass(frozen=True, eq=False)
class Uttered:
    """What is said in one go: keywords, and the sound around them."""

    sound: Sound
    words: tuple[Spoken, ...]
    """Places from the beginning of `sound`."""
    level: float
    """Root mean square of the (first) keyword itself."""
    pieces: tuple[Piece, ...] = ()
    """Recordings without keywords in it, their places from its beginning."""


def utter(take: Take, kind: str, rng: np.random.Generator) -> Uttered:
    """A word as loud as speech, give or take 4 dB; its SNR is set when it is laid out."""
    sound = as_speech(take.sound, rng)
    first, last = word_span(sound)
    return Uttered(
        sound, (Spoken(take.word, first, last, take.speaker, kind, 0.0, fingerprint(take.sound)),), active_level(sound)
    )


def crop(uttered: Uttered, margin: float = 0.1) -> Uttered:
    """From so many seconds before the first word to as many after the last."""
    spare = round(margin * SAMPLE_RATE)
    first, last = max(0, uttered.words[0].start - spare), uttered.words[-1].end + spare
    return replace(uttered, sound=uttered.sound[first : last + 1], words=_shift(uttered.words, -first))


def _shift(words: Sequence[Spoken], by: int) -> tuple[Spoken, ...]:
    return tuple(replace(word, start=word.start + by, end=word.end + by) for word in words)


def shift_pieces(pieces: Sequence[Piece], by: int) -> tuple[Piece, ...]:
    """Pieces so many samples later."""
    return tuple(replace(piece, start=piece.start + by, end=piece.end + by) for piece in pieces)


def join(first: Uttered, second: Uttered, gap: float) -> Uttered:
    """Two utterances, so many seconds from the last word's end to the next one's start; overlaps add up."""
    start = first.words[-1].end + round(gap * SAMPLE_RATE) - second.words[0].start
    lead = max(0, -start)
    sound = np.zeros(lead + max(len(first.sound), start + len(second.sound)), np.float32)
    sound[lead : lead + len(first.sound)] += first.sound
    sound[lead + start : lead + start + len(second.sound)] += second.sound
    return Uttered(sound, (*_shift(first.words, lead), *_shift(second.words, lead + start)), first.level)


def laid_out(
    utterances: Sequence[Uttered], noise: Sequence[Sound], rng: np.random.Generator, snr: Range, pauses: Range
) -> Scene:
    """Utterances one after another over a background that has, around each, the level that its SNR asks for."""
    parts, places, place = list[Sound](), list[int](), 0
    for utterance in utterances:
        pause = silence(rng.uniform(*pauses))
        parts += [pause, utterance.sound]
        places.append(place + len(pause))
        place = places[-1] + len(utterance.sound)
    parts.append(silence(2.0))
    speech = np.concatenate(parts)
    ratios = rng.uniform(*snr, len(utterances))
    levels = [utterance.level * ratio(-wanted) for utterance, wanted in zip(utterances, ratios, strict=True)]
    spans = [(p, p + len(u.sound)) for p, u in zip(places, utterances, strict=True)]
    bed = background(noise, len(speech), rng)
    words = [
        replace(word, snr=float(wanted))
        for place, utterance, wanted in zip(places, utterances, ratios, strict=True)
        for word in _shift(utterance.words, place)
    ]
    pieces = [piece for p, u in zip(places, utterances, strict=True) for piece in shift_pieces(u.pieces, p)]
    return Scene(pcm(speech + bed * _gains(bed, spans, levels)), tuple(words), pieces=tuple(pieces))


def _gains(bed: Sound, spans: Sequence[tuple[int, int]], levels: Sequence[float]) -> Sound:
    """What to multiply a background with, (samples,): so that its loudest half second around each span has its level.

    In between the gain goes evenly, in decibels, from one to the next.
    """
    if not spans:
        return np.ones(len(bed), np.float32)
    around = SAMPLE_RATE // 2
    points, values = list[int](), list[float]()
    for (start, end), wanted in zip(spans, levels, strict=True):
        there = max(loudest(bed[max(0, start - around) : end + around]), ratio(QUIETEST_DB))
        points += [start, end]
        values += [np.log(wanted / there)] * 2
    gains: Sound = np.exp(np.interp(np.arange(len(bed)), points, values)).astype(np.float32)
    return gains
