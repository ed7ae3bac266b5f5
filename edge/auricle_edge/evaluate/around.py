"""What a loudspeaker in the room plays around the keywords: television and music, of recordings or synthetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from auricle.errors import DataError
from auricle.hearing.loudspeaker import make_programme, through_loudspeaker
from auricle.hearing.music import make_music
from auricle.hearing.scenes import Scene, keywords_in_noise, noise_alone
from auricle.hearing.sounds import Sound, Take, fade, fingerprint
from auricle.hearing.utterances import Range
from auricle.speech.audio import SAMPLE_RATE
from auricle_edge.evaluate.levels import MUSIC, TELEVISION
from auricle_edge.evaluate.sources import Sources

SYNTHETIC = "synthetic"
"""What stands in place of a folder."""
SNR: Range = (0.0, 20.0)
"""dB of the word over what the loudspeaker plays."""
PAUSES: Range = (1.0, 2.5)
"""Seconds between two keywords."""
PIECE_SECONDS = 30.0
"""A programme or piece of music lasts so long before the next one."""

Compose = Callable[[np.random.Generator], Scene]
_Piece = tuple[str, Sound]
"""What a recording is known by (its `fingerprint`, or a name), and how a part of it arrives at the microphone."""
_Play = Callable[[np.random.Generator, float], list[_Piece]]
"""Plays pieces for about so many seconds."""


def scenes_around(
    sources: Sources, synthetic: Sequence[str], parts: Sequence[Sequence[Take]], seconds: Sequence[float]
) -> list[Compose]:
    """List what makes the scenes of each kind that has recordings or is synthetic.

    Parameters
    ----------
    parts
        Keywords, those of each scene.
    seconds
        Of each scene without keywords.

    Raises
    ------
    DataError
        A synthetic television has nobody who speaks.
    """
    if TELEVISION in synthetic and not sources.speech:
        raise DataError("A synthetic television speaks by --speech: name a folder, or recordings of a television.")
    kinds: dict[str, _Play] = {
        TELEVISION: partial(_television, sources=sources, synthetic=synthetic),
        MUSIC: partial(_music, sources=sources, synthetic=synthetic),
    }
    recordings = {TELEVISION: sources.television, MUSIC: sources.music}
    made: list[Compose] = []
    for kind, play in kinds.items():
        if kind in synthetic or recordings[kind]:
            made += [partial(_keywords, kind=kind, play=play, takes=takes) for takes in parts]
            made += [partial(_alone, kind=kind, play=play, seconds=length) for length in seconds]
    return made


def _keywords(rng: np.random.Generator, *, kind: str, play: _Play, takes: Sequence[Take]) -> Scene:
    seconds = sum(len(take.sound) / SAMPLE_RATE + sum(PAUSES) / 2 for take in takes)
    pieces = [sound for _, sound in play(rng, seconds)]
    scene = keywords_in_noise(takes, pieces, rng, snr=SNR, pauses=PAUSES)
    return replace(scene, words=tuple(replace(word, kind=kind) for word in scene.words))


def _alone(rng: np.random.Generator, *, kind: str, play: _Play, seconds: float) -> Scene:
    pieces = play(rng, seconds)
    known = {fingerprint(sound): source for source, sound in pieces}
    scene = noise_alone([sound for _, sound in pieces], rng)
    return replace(
        scene,
        stretches=tuple(replace(part, kind=kind) for part in scene.stretches),
        pieces=tuple(replace(piece, source=known[piece.source]) for piece in scene.pieces),
    )


def _television(
    rng: np.random.Generator, seconds: float, *, sources: Sources, synthetic: Sequence[str]
) -> list[_Piece]:
    if TELEVISION not in synthetic:
        return _excerpts(rng, seconds, sources.television)

    def programme() -> Sound:
        music = _excerpt(rng, sources.music)[1] if sources.music else make_music(rng, PIECE_SECONDS)
        return through_loudspeaker(make_programme(sources.speech, sources.noise, music, rng), rng)

    return _synthetic(rng, seconds, TELEVISION, programme)


def _music(rng: np.random.Generator, seconds: float, *, sources: Sources, synthetic: Sequence[str]) -> list[_Piece]:
    if MUSIC not in synthetic:
        return _excerpts(rng, seconds, sources.music)
    return _synthetic(rng, seconds, MUSIC, lambda: through_loudspeaker(make_music(rng, PIECE_SECONDS), rng))


def _synthetic(rng: np.random.Generator, seconds: float, kind: str, make: Callable[[], Sound]) -> list[_Piece]:
    return [(f"{SYNTHETIC} {kind} {rng.integers(10**9):09}", make()) for _ in range(_pieces(seconds))]


def _excerpts(rng: np.random.Generator, seconds: float, recordings: Sequence[Sound]) -> list[_Piece]:
    found = [_excerpt(rng, recordings) for _ in range(_pieces(seconds))]
    return [(source, through_loudspeaker(sound, rng)) for source, sound in found]


def _excerpt(rng: np.random.Generator, recordings: Sequence[Sound]) -> _Piece:
    """From anywhere in a recording, which goes round where it is shorter."""
    chosen = recordings[int(rng.integers(len(recordings)))]
    start, count = int(rng.integers(len(chosen))), round(PIECE_SECONDS * SAMPLE_RATE)
    return fingerprint(chosen), fade(np.take(chosen, np.arange(start, start + count), mode="wrap"))


def _pieces(seconds: float) -> int:
    return max(1, round(seconds / PIECE_SECONDS))
