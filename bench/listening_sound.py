"""What devices of the listening bench hear on their days, and what they are judged by: two worlds with nobody in both.

|         | a day                                   | the judge                                      |
|---------|-----------------------------------------|------------------------------------------------|
| words   | `gsc`, people who own no device         | `gsc-more`, test part, nobody of `gsc`; `fsdd` |
| speech  | `stream`                                | `stream-more`, test part                       |
| foreign |                                         | `arabic`, test and validation parts            |
| noise   | train part of `gsc/_background_noise_`  | its test part                                  |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from auricle.hearing.scenes import Scene, end_to_end, keywords_in_noise, noise_alone, without_keywords
from auricle.hearing.sounds import Sound, Take
from auricle_edge.evaluate.plan import Compose, Plan, plan_scenes
from auricle_edge.evaluate.sources import Folders, Sources, read_sources
from bench.listening_owners import Owner, takes_of

PAUSES = (6.0, 8.0)
"""Seconds between two words of the owner: who missed one says so before the next."""


def lived_with(data: Path, keywords: Sequence[str], owners: Collection[str]) -> Sources:
    """Sound of the days in which nobody means the device.

    Parameters
    ----------
    data
        Folder with `gsc` and `stream`.
    keywords
        The pack's.
    owners
        Speakers who own a device.

    Raises
    ------
    DataError
        A folder is missing or empty.
    """
    folders = Folders(words=(data / "gsc",), speech=(data / "stream" / "speech",))
    sound = read_sources(folders, keywords, ())
    others = tuple(take for take in sound.words if take.speaker not in owners)
    return replace(sound, words=others, noise=_noise(data, "train"))


def judged_by(data: Path, keywords: Sequence[str]) -> Sources:
    """Sound that judges: no corpus of words or speech, no speaker, reader or noise of `lived_with`.

    Of `fsdd`, six people who say ten words, no more clips are taken than of `gsc-more`.

    Parameters
    ----------
    data
        Folder with `gsc` (for its noises), `gsc-more`, `stream-more`, `arabic` and `fsdd`.
    keywords
        The pack's.

    Raises
    ------
    DataError
        A folder is missing or empty.
    """
    left_out = (data / "gsc",)
    test = read_sources(
        Folders(words=(data / "gsc-more",), speech=(data / "stream-more" / "speech",), left_out=left_out),
        keywords,
        ("test",),
    )
    foreign = read_sources(Folders(languages=(data / "arabic",)), keywords, ("test", "validation"))
    digits = read_sources(Folders(words=(data / "fsdd",)), keywords, ()).words
    some = digits[:: max(1, -(-len(digits) // max(1, len(test.words))))]
    return replace(test, words=test.words + some, languages=foreign.languages, noise=_noise(data, "test"))


def _noise(data: Path, part: str) -> tuple[Sound, ...]:
    folders = Folders(noise=(data / "gsc" / "_background_noise_",))
    return read_sources(folders, (), ("train",) if part == "train" else ("test",)).noise


def amounts(sources: Sources) -> dict[str, float]:
    """Minutes of recordings by kind, each counted once."""
    kinds: dict[str, Iterable[Sound]] = {
        "words": (take.sound for take in sources.words),
        "speech": sources.speech,
        "languages": (take.sound for take in sources.languages),
        "noise": sources.noise,
    }
    return {kind: sum(map(len, sounds)) / 16_000 / 60 for kind, sounds in kinds.items()}


@dataclass(frozen=True, eq=False)
class Days:
    """What is played to the devices."""

    sound: Sources
    """In which nobody means them."""
    minutes: float
    """Of other words on each day; running speech and every noise come on top, each once."""
    snr: tuple[float, float] = (5.0, 20.0)
    """dB of words and speech over noise."""

    def said(self, owner: Owner, day: int, rng: np.random.Generator) -> Scene | None:
        """The owner's words of a day in noise; None where there are none."""
        takes = takes_of(owner.days[day])
        return keywords_in_noise(takes, self.sound.noise, rng, snr=self.snr, pauses=PAUSES) if takes else None

    def not_meant(self, rng: np.random.Generator) -> Scene:
        """Running speech, single other words, and noise alone."""
        sound, noise = self.sound, self.sound.noise
        words = [take.sound for take in sound.words]
        return end_to_end(
            [
                without_keywords("speech", sound.speech, noise, rng, snr=self.snr),
                without_keywords("words", words, noise, rng, seconds=self.minutes * 60, snr=self.snr),
                noise_alone(noise, rng),
            ]
        )


def judging_scenes(
    owner: Owner, sound: Sources, minutes: float, passes: int, rng: np.random.Generator
) -> list[Compose]:
    """What makes each scene that a device is judged by: the protocol of docs/hearing.md, with its owner's kept takes.

    Parameters
    ----------
    minutes
        Of each kind of sound without keywords, at most; which recordings these are is drawn for every owner.
    passes
        How often each kept take is said in each kind of scene, and each recording without keywords heard at most.
    """

    def mixed(of: Sequence[Take]) -> tuple[Take, ...]:
        return tuple(of[i] for i in rng.permutation(len(of)))

    speech = tuple(sound.speech[i] for i in rng.permutation(len(sound.speech)))
    own = Sources(tuple(takes_of(owner.judged)), mixed(sound.words), mixed(sound.languages), speech, sound.noise)
    return plan_scenes(own, (), Plan(minutes=minutes, passes=passes))
