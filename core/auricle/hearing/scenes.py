"""Streams of which it is known what is said when: keywords in noise, over speech and after words, and none at all.

What comes after a wake word is in `wake_scenes`. Everything is drawn from the generator that is passed in: the same
recordings and the same seed make the same scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from auricle.hearing.sounds import (
    BED_SECONDS,
    LOUDNESS_DB,
    Sound,
    Take,
    active_level,
    as_loud,
    as_speech,
    draw_background,
    fingerprint,
    in_room,
    pcm,
    ratio,
    room,
    shuffle,
    silence,
)
from auricle.hearing.utterances import (
    Piece,
    Range,
    Scene,
    Spoken,
    Stretch,
    Uttered,
    crop,
    join,
    laid_out,
    shift_pieces,
    utter,
)
from auricle.speech.audio import SAMPLE_RATE

__all__ = [
    "AFTER_WORDS",
    "NOISE",
    "OVER_SPEECH",
    "ROOM",
    "Piece",
    "Scene",
    "Spoken",
    "Stretch",
    "end_to_end",
    "keywords_after_words",
    "keywords_in_noise",
    "keywords_over_speech",
    "noise_alone",
    "run_together",
    "without_keywords",
]

NOISE, ROOM, OVER_SPEECH, AFTER_WORDS = "noise", "rooms", "over speech", "after words"
"""Kinds of scene with keywords."""

_OTHER = "other"
_NOISE_DBFS = (-41.0, -26.0)
"""Loudest half second of noise alone: what keywords and speech have beside them, and a little more."""


def keywords_in_noise(
    takes: Sequence[Take],
    noise: Sequence[Sound],
    rng: np.random.Generator,
    *,
    snr: Range = (5.0, 20.0),
    pauses: Range = (1.0, 2.5),
    rooms: bool = False,
) -> Scene:
    """Every take once, in random order, with pauses of so many seconds, in noise; in rooms where wanted."""
    said = [_in_its_room(utter(take, ROOM if rooms else NOISE, rng), rooms, rng) for take in shuffle(takes, rng)]
    return laid_out(said, noise, rng, snr, pauses)


def keywords_over_speech(
    takes: Sequence[Take],
    speech: Sequence[Sound],
    rng: np.random.Generator,
    *,
    snr: Range = (5.0, 15.0),
    pauses: Range = (1.0, 2.5),
) -> Scene:
    """Every take once over other people's running speech, fainter than the word by `snr` dB, which never stops."""
    said = [utter(take, OVER_SPEECH, rng) for take in shuffle(takes, rng)]
    return laid_out(said, speech, rng, snr, pauses)


def keywords_after_words(
    takes: Sequence[Take],
    others: Sequence[Take],
    noise: Sequence[Sound],
    rng: np.random.Generator,
    *,
    snr: Range = (5.0, 20.0),
    pauses: Range = (1.0, 2.5),
    gap: Range = (0.02, 0.35),
    followed: float = 0.3,
) -> Scene:
    """Every take once, straight after another word: `gap` seconds from its end to the keyword's start.

    A share of `followed` of them have another word after them, too, at the same distance. The neighbours are as loud
    as the keyword, give or take 4 dB.
    """
    said = []
    for take in shuffle(takes, rng):
        after = utter(take, AFTER_WORDS, rng)
        said.append(_among(after, others, rng, gap, both=bool(rng.random() < followed)))
    return laid_out(said, noise, rng, snr, pauses)


def without_keywords(
    kind: str,
    sounds: Sequence[Sound],
    noise: Sequence[Sound],
    rng: np.random.Generator,
    *,
    seconds: float = np.inf,
    snr: Range = (5.0, 20.0),
    pauses: Range = (0.3, 1.5),
) -> Scene:
    """Recordings without keywords, each once at most, in random order, in noise, until `seconds` are full.

    Running speech, single words, other languages: what it is, is for `kind` to say.
    """
    return _without(kind, [_Other(sound) for sound in sounds], noise, rng, seconds, snr, pauses)


@dataclass(frozen=True, eq=False)
class _Other:
    """Sound without keywords, and the recordings in it."""

    sound: Sound
    pieces: tuple[Piece, ...] = ()
    """Empty where it is one recording."""


def _without(
    kind: str,
    others: Sequence[_Other],
    noise: Sequence[Sound],
    rng: np.random.Generator,
    seconds: float,
    snr: Range = (5.0, 20.0),
    pauses: Range = (0.3, 1.5),
) -> Scene:
    said: list[Uttered] = []
    length, most = 0.0, seconds * SAMPLE_RATE
    for index in rng.permutation(len(others)):
        if length >= most:
            break
        sound, pieces = others[index].sound, others[index].pieces
        loud = as_speech(sound, rng)
        said.append(Uttered(loud, (), active_level(loud), pieces or (Piece(fingerprint(sound), 0, len(sound)),)))
        length += len(loud) + SAMPLE_RATE * sum(pauses) / 2
    return _whole(laid_out(said, noise, rng, snr, pauses), kind)


def run_together(
    words: Sequence[Take],
    noise: Sequence[Sound],
    rng: np.random.Generator,
    *,
    seconds: float,
    gap: Range = (0.0, 0.1),
    most: int = 6,
) -> Scene:
    """Other words, two to `most` in a row, as close as in a sentence."""
    rows: list[_Other] = []
    length = 0
    while length < seconds * SAMPLE_RATE and words:
        count = int(rng.integers(2, most + 1))
        parts: list[Sound] = []
        pieces: list[Piece] = []
        place = 0
        for index in rng.integers(len(words), size=count):
            word = crop(utter(words[index], _OTHER, rng), 0.05)
            pieces.append(Piece(fingerprint(words[index].sound), place, place + len(word.sound)))
            parts += [word.sound, silence(rng.uniform(*gap))]
            place += len(parts[-2]) + len(parts[-1])
        rows.append(_Other(np.concatenate(parts), tuple(pieces)))
        length += len(rows[-1].sound) + SAMPLE_RATE
    return _without("run together", rows, noise, rng, seconds)


def noise_alone(noise: Sequence[Sound], rng: np.random.Generator, *, seconds: float = 0.0) -> Scene:
    """Every noise once, as loud as under speech; then again, from anywhere in it and at other levels, for `seconds`."""
    names = [fingerprint(sound) for sound in noise]
    order = rng.permutation(len(noise))
    parts = [as_loud(noise[i], rng.uniform(*_NOISE_DBFS)) for i in order]
    ends = np.cumsum([len(part) for part in parts])
    pieces = [Piece(names[i], int(end) - len(part), int(end)) for i, part, end in zip(order, parts, ends, strict=True)]
    missing = round(seconds * SAMPLE_RATE) - sum(map(len, parts))
    if missing > 0:
        more, drawn = draw_background(noise, missing, rng)
        starts = range(sum(map(len, parts)), sum(map(len, parts)) + missing, BED_SECONDS * SAMPLE_RATE)
        pieces += [
            Piece(names[i], start, min(start + BED_SECONDS * SAMPLE_RATE, starts.stop))
            for i, start in zip(drawn, starts, strict=True)
        ]
        levels = np.interp(
            np.arange(missing),
            np.arange(0, missing, 10 * SAMPLE_RATE),
            rng.uniform(*_NOISE_DBFS, -(-missing // 160_000)),
        )
        parts.append((more * 10 ** (levels / 20)).astype(np.float32))
    return _whole(Scene(pcm(np.concatenate([silence(0), *parts])), pieces=tuple(pieces)), "noise")


def end_to_end(scenes: Sequence[Scene]) -> Scene:
    """Scenes as one, the words and stretches moved to where they now are."""
    words: list[Spoken] = []
    stretches: list[Stretch] = []
    pieces: list[Piece] = []
    place = 0
    for scene in scenes:
        pieces += shift_pieces(scene.pieces, place)
        words += [replace(word, start=word.start + place, end=word.end + place) for word in scene.words]
        stretches += [replace(part, start=part.start + place, end=part.end + place) for part in scene.stretches]
        place += len(scene.samples)
    samples = np.concatenate([scene.samples for scene in scenes])
    return Scene(samples, tuple(words), tuple(stretches), tuple(pieces))


def _in_its_room(said: Uttered, wanted: bool, rng: np.random.Generator) -> Uttered:
    """The word's end stays that of the dry word; the sound rings on after it."""
    return replace(said, sound=in_room(said.sound, room(rng))) if wanted else said


def _among(said: Uttered, others: Sequence[Take], rng: np.random.Generator, gap: Range, *, both: bool) -> Uttered:
    def neighbour() -> Uttered:
        other = crop(utter(others[int(rng.integers(len(others)))], _OTHER, rng))
        wanted = said.level * ratio(rng.uniform(-LOUDNESS_DB, LOUDNESS_DB))
        return replace(other, sound=other.sound * np.float32(wanted / other.level))

    whole = join(neighbour(), crop(said), rng.uniform(*gap))
    if both:
        whole = join(whole, neighbour(), rng.uniform(*gap))
    return replace(whole, words=tuple(word for word in whole.words if word.kind != _OTHER), level=said.level)


def _whole(scene: Scene, kind: str) -> Scene:
    return replace(scene, stretches=(Stretch(kind, 0, len(scene.samples)),))
