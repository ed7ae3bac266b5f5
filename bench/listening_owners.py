"""Who owns a device in the listening bench: speakers of Speech Commands, and what becomes of each of their takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auricle.errors import DataError
from auricle.hearing.sounds import Take
from auricle.speech.audio import CLIP_SAMPLES, fit_clip, read_audio
from auricle.speech.clip_folder import ClipFile

LEAST = 20
"""Takes of the pack's words that somebody who owns a device has: as many as for a device of `auricle fleet run`."""
JUDGED = 0.4
"""Share of a word's takes that judge."""


@dataclass(frozen=True)
class Owner:
    """A speaker, whose takes are split: those that the device hears, by day, and those that it is judged by."""

    name: str
    enrolled: tuple[ClipFile, ...]
    days: tuple[tuple[ClipFile, ...], ...]
    judged: tuple[ClipFile, ...]


def owner_of(name: str, clips: Sequence[ClipFile], days: int) -> Owner:
    """Of each word: one take to enrol, two fifths (at least one) to judge by, the others said on the days in turn."""
    enrolled, judged, said = list[ClipFile](), list[ClipFile](), list[ClipFile]()
    for word, count in sorted(Counter(clip.word for clip in clips).items()):
        takes = sorted((clip for clip in clips if clip.word == word), key=lambda clip: clip.path.name)
        cut = count - max(1, round(JUDGED * count))
        judged += takes[cut:]
        enrolled += takes[: min(1, cut)]
        said += takes[1:cut]
    return Owner(name, tuple(enrolled), tuple(tuple(said[day::days]) for day in range(days)), tuple(judged))


def draw_owners(clips: Sequence[ClipFile], words: Sequence[str], count: int, days: int, seed: int) -> list[Owner]:
    """So many speakers, another draw and another order with each seed.

    Parameters
    ----------
    clips
        Of a Speech Commands folder.
    words
        The pack's keywords.

    Raises
    ------
    DataError
        Fewer speakers have `LEAST` takes of these words.
    """
    said = [clip for clip in clips if clip.word in words]
    takes = Counter(clip.speaker for clip in said)
    able = sorted(speaker for speaker, number in takes.items() if number >= LEAST)
    if len(able) < count:
        raise DataError(
            f"{len(able)} speakers have {LEAST} or more takes of the pack's words, and {count} are to own a device: "
            f"take --owners {len(able)} or fewer."
        )
    names = [able[i] for i in np.random.default_rng([seed, 0]).permutation(len(able))[:count]]
    return [owner_of(name, [clip for clip in said if clip.speaker == name], days) for name in names]


def takes_of(clips: Sequence[ClipFile]) -> list[Take]:
    """The recordings themselves."""
    return [Take(clip.word, clip.speaker, fit_clip(read_audio(clip.path), CLIP_SAMPLES)) for clip in clips]
