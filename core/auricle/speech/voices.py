"""Synthetic speakers: who they are, and how each says a text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auricle.errors import DataError, SettingsError
from auricle.speech.espeak import INSTEAD, Utterance, require_espeak

ACCENTS = ("en", "en-029", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-gb-x-rp", "en-us", "en-us-nyc")
"""The kinds of English that espeak-ng speaks; en-shaw is left out, since it reads another alphabet."""

ENGLISH_CODE = "en"
"""espeak-ng's name of English."""

OTHER_NAMES: Mapping[str, str] = {"zh": "cmn", "no": "nb"}
"""What two languages are usually called, and espeak-ng's own name of each."""

_OTHER_ALPHABETS = frozenset({"en-shaw", "fa-latn", "cmn-latn-pinyin", "yue-latn-jyutping"})
_NEAREST = 3

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


def most_voices(language: str = ENGLISH_CODE) -> int:
    """How many different speakers a language has; raises what `choose_voices` does."""
    return len(_variants()) * len(accents_of(language))


def choose_voices(count: int, seed: int, language: str = ENGLISH_CODE) -> list[Voice]:
    """Choose different speakers: every variant once in some accent, then every one again in another.

    Parameters
    ----------
    count
        How many; the first n are the same whatever the number.
    seed
        Decides who they are.
    language
        One of `languages`, whose accents all speak, or one accent, which speaks alone: `pt` or `pt-br`.

    Raises
    ------
    SettingsError
        espeak-ng does not have the language, or there are fewer pairs of accent and variant than `count`.
    DataError
        espeak-ng is not installed.
    """
    accents, variants = accents_of(language), _variants()
    most = len(accents) * len(variants)
    if count > most:
        of_language = "" if language == ENGLISH_CODE else f' of the language "{language}"'
        raise SettingsError(
            f"There are {most} synthetic speakers{of_language} and {count} were asked for: ask for fewer."
        )
    rng = np.random.default_rng([seed, 3])
    order = rng.permutation(len(variants))
    first_accent = rng.integers(len(accents), size=len(variants))
    voices = []
    for place in range(count):
        lap, turn = divmod(place, len(variants))
        manner = np.random.default_rng([seed, 4, place])
        voices.append(
            Voice(
                accent=accents[(int(first_accent[turn]) + lap) % len(accents)],
                variant=variants[order[turn]],
                rate=int(manner.integers(140, 201)),
                pitch=int(manner.integers(30, 71)),
                pitch_range=int(manner.integers(35, 66)),
            )
        )
    return voices


def languages() -> dict[str, tuple[str, ...]]:
    """Give the accents of every language that espeak-ng speaks, by its own names of them: `fr` has `fr-be`.

    Raises
    ------
    DataError
        espeak-ng is not installed.
    """
    spoken = sorted(_language_names())
    of_language: dict[str, tuple[str, ...]] = {}
    for accent in spoken:
        root = accent.split("-")[0]
        language = root if root in spoken else accent
        of_language[language] = (*of_language.get(language, ()), accent)
    return {**of_language, ENGLISH_CODE: ACCENTS}


def accents_of(language: str) -> tuple[str, ...]:
    """Give the accents in which a language is spoken; the first is its own.

    Raises
    ------
    SettingsError
        espeak-ng does not have the language.
    DataError
        espeak-ng is not installed.
    """
    if language == ENGLISH_CODE:
        return ACCENTS
    code = OTHER_NAMES.get(language.lower(), language.lower())
    known = languages()
    if code in known:
        return known[code]
    names = _language_names()
    if code in names:
        return (code,)
    raise SettingsError(f'espeak-ng has no language "{language}": {_nearest_language(code, names)}')


def _nearest_language(word: str, names: Mapping[str, str]) -> str:
    """Name the languages whose code or English name is nearest, or list every code."""
    code_of = {**{code: code for code in names}, **{name.lower(): code for code, name in reversed([*names.items()])}}
    begun = [spelling for spelling in code_of if word and spelling.startswith(word)]
    alike = begun or difflib.get_close_matches(word, code_of, n=_NEAREST, cutoff=0.6)
    nearest = list(dict.fromkeys(code_of[spelling] for spelling in alike))[:_NEAREST]
    if not nearest:
        return f"there is: {', '.join(sorted(names))}."
    described = [f'"{code}" ({names[code]})' for code in nearest]
    return f"did you mean {' or '.join(described)}?"


def _language_names() -> dict[str, str]:
    """Read the English name of every accent that espeak-ng has a dictionary for, by its code."""
    data = _data_folder()
    try:
        files = sorted(path for path in (data / "lang").rglob("*") if path.is_file())
        descriptions = {path.name.lower(): path.read_text("utf-8", "replace") for path in files}
    except OSError as error:
        raise _voices_missing(error) from error
    return {
        code: _entry(text, "name") or code
        for code, text in sorted(descriptions.items())
        if code not in _OTHER_ALPHABETS
        and Path(data, f"{_entry(text, 'dictionary') or code.split('-')[0]}_dict").exists()
    }


def _entry(description: str, key: str) -> str:
    line = re.search(rf"^{key}\s+([^/\n]*)", description, re.MULTILINE)
    return line[1].strip() if line else ""


def _variants() -> list[str]:
    """List the variants that espeak-ng's data has, by name."""
    folder = _data_folder() / "voices" / "!v"
    try:
        variants = sorted({path.name for path in folder.iterdir()} - LEFT_OUT_VARIANTS)
    except OSError as error:
        raise _voices_missing(error) from error
    if not variants:
        raise DataError(f"There is no voice in {folder}: reinstall espeakng-loader, or {INSTEAD}.")
    return variants


def _data_folder() -> Path:
    require_espeak()
    import espeakng_loader

    try:
        return Path(espeakng_loader.get_data_path())
    except (OSError, RuntimeError) as error:
        raise _voices_missing(error) from error


def _voices_missing(error: Exception) -> DataError:
    return DataError(f"espeak-ng's voices are not where its wheel keeps them ({error}): {INSTEAD}.")


def utterance(voice: Voice, text: str, rng: np.random.Generator) -> Utterance:
    """Draw one way in which this speaker says a text."""
    return Utterance(
        text=text,
        rate=round(voice.rate * float(rng.uniform(0.85, 1.15))),
        pitch=voice.pitch + int(rng.integers(-10, 11)),
        range=voice.pitch_range + int(rng.integers(-15, 16)),
    )
