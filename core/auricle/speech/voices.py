"""Synthetic speakers: who they are, and how each says a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auricle.errors import DataError, SettingsError
from auricle.speech.espeak import INSTEAD, Utterance, require_espeak

ACCENTS = ("en", "en-029", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-gb-x-rp", "en-us", "en-us-nyc")
"""The kinds of English that espeak-ng speaks; en-shaw is left out, since it reads another alphabet."""

LEFT_OUT_VARIANTS = frozenset(
    {
        *("f2", "f3", "f5", "Alicia", "sandro", "victor"),
        *("whisper", "whisperf", "croak", "fast"),
        *("Demonic", "UniRobot", "anikaRobot", "robosoft", *(f"robosoft{number}" for number in range(2, 9))),
    }
)
"""Variants that are not a voice of their own: without voicing, the same as no variant (`fast`), or a machine's."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One synthetic speaker's way of speaking."""

    accent: str
    """An espeak-ng language."""

    variant: str
    """An espeak-ng voice variant: the vocal tract."""

    rate: int
    """Words a minute on average."""

    pitch: int
    """The average pitch, 0 to 100, around the variant's own at 50."""

    pitch_range: int
    """The liveliness, 0 to 100."""

    @property
    def espeak_name(self) -> str:
        """The voice as espeak-ng names it."""
        return f"{self.accent}+{self.variant}"

    @property
    def name(self) -> str:
        """The speaker's name: small letters, digits and hyphens."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.accent}-{self.variant}".lower())


def most_voices() -> int:
    """How many different speakers there are; DataError where espeak-ng is not installed."""
    return len(_variants()) * len(ACCENTS)


def choose_voices(count: int, seed: int) -> list[Voice]:
    """Choose different speakers: every variant once in some accent, then every one again in another.

    Raises
    ------
    SettingsError
        There are fewer pairs of accent and variant than `count`.
    DataError
        espeak-ng is not installed.
    """
    variants, most = _variants(), most_voices()
    if count > most:
        raise SettingsError(f"There are {most} synthetic speakers and {count} were asked for: ask for fewer.")
    rng = np.random.default_rng([seed, 3])
    order = rng.permutation(len(variants))
    first_accent = rng.integers(len(ACCENTS), size=len(variants))
    voices = []
    for place in range(count):
        lap, turn = divmod(place, len(variants))
        manner = np.random.default_rng([seed, 4, place])
        voices.append(
            Voice(
                accent=ACCENTS[(int(first_accent[turn]) + lap) % len(ACCENTS)],
                variant=variants[order[turn]],
                rate=int(manner.integers(140, 201)),
                pitch=int(manner.integers(30, 71)),
                pitch_range=int(manner.integers(35, 66)),
            )
        )
    return voices


def _variants() -> list[str]:
    """List the variants that espeak-ng's data has, by name."""
    require_espeak()
    import espeakng_loader

    try:
        folder = Path(espeakng_loader.get_data_path(), "voices", "!v")
        variants = sorted({path.name for path in folder.iterdir()} - LEFT_OUT_VARIANTS)
    except (OSError, RuntimeError) as error:
        raise DataError(f"espeak-ng's voices are not where its wheel keeps them ({error}): {INSTEAD}.") from error
    if not variants:
        raise DataError(f"There is no voice in {folder}: reinstall espeakng-loader, or {INSTEAD}.")
    return variants


def utterance(voice: Voice, text: str, rng: np.random.Generator) -> Utterance:
    """Draw one way in which this speaker says a text."""
    return Utterance(
        text=text,
        rate=round(voice.rate * float(rng.uniform(0.85, 1.15))),
        pitch=voice.pitch + int(rng.integers(-10, 11)),
        range=voice.pitch_range + int(rng.integers(-15, 16)),
    )
