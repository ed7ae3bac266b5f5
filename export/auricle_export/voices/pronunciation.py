"""How else a text may be said: rules over the phonemes of espeak-ng, in the International Phonetic Alphabet.

People say a phrase in more ways than a dictionary has. Each rule is a thing that English speakers do: a `t` between
vowels is tapped or not, an `r` after a vowel is said or not, unstressed vowels are reduced or full, vowels are short,
second stresses are dropped. No phrase is named here.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from auricle.speech.espeak import ipa_of

_VOWELS = "aɑɐɒæɔəɚɛɜeɪiɨoʊuʌ"
_TRAINED = (
    *(("dʒ", "ʤ"), ("tʃ", "ʧ"), ("eɪ", "A"), ("aɪ", "I"), ("ɔɪ", "Y"), ("oʊ", "O"), ("əʊ", "Q"), ("aʊ", "W")),
    *(("ɜːɹ", "ɜɹ"), ("ɜː", "ɜɹ"), ("ɾ", "T")),
)
"""Sounds of two signs, and the one sign in which Kokoro's English was trained
(https://github.com/hexgrad/misaki/blob/main/EN_PHONES.md)."""
_MANDARIN = (
    ("ts.", "ʈʂ"),
    ("s.", "ʂ"),
    ("z.", "ɻ"),
    ("tɕh", "ʨʰ"),
    ("tsh", "ʦʰ"),
    ("th", "tʰ"),
    ("kh", "kʰ"),
    ("ph", "pʰ"),
)
_TONES = str.maketrans({"5": "→", "ɜ": "↗", "2": "↓", "1": "↘"})
"""How espeak-ng writes a tone, and how Kokoro's phonemes do."""


_NAMES = {"en-gb": "en"}
"""What espeak-ng's own name of an accent is, where it is usually called something else."""


@lru_cache(maxsize=4096)
def sounds_of(accent: str, text: str) -> str:
    """What espeak-ng says for a text, each asked once; as `auricle.speech.espeak.ipa_of`."""
    return ipa_of(_NAMES.get(accent, accent), text)


def spellings(ipa: str, rng: np.random.Generator) -> str:
    """Draw one way in which an English text may be said.

    Parameters
    ----------
    ipa
        As `auricle.speech.espeak.ipa_of` gives it.
    """

    def may(chance: float) -> bool:
        return bool(rng.random() < chance)

    said = ipa
    if may(0.35):
        said = said.replace("ɾ", "t")
    elif may(0.3):
        said = re.sub(f"(?<=[{_VOWELS}ː])t(?=[{_VOWELS}])", "ɾ", said)
    if may(0.25):
        said = re.sub(f"(?<=[{_VOWELS}ː])ɹ(?![{_VOWELS}ˈˌ])", "", said)
    if may(0.35):
        said = said.replace("ɚ", "ə" if may(0.5) else "əɹ")
    if may(0.5):
        said = re.sub("ɐ$", "ə", said)
    said = _reduce_vowels(said, rng)
    if may(0.25):
        said = said.replace("ː", "")
    if may(0.5):
        said = said.replace("ˌ", "")
    if may(0.1):
        said = said.replace("ˈ", "")
    if may(0.6):
        for two, one in _TRAINED:
            said = said.replace(two, one)
    return said


def _reduce_vowels(said: str, rng: np.random.Generator) -> str:
    """Vowels without stress that are fuller, or less full, than the dictionary has them."""
    if rng.random() < 0.25:
        said = re.sub("(?<![ˈˌ])ə(?=[^ʊɹ])", str(rng.choice(["ʌ", "ɪ", "ɑ", "æ"], p=(0.5, 0.25, 0.15, 0.1))), said)
    if rng.random() < 0.2:
        said = re.sub(f"(?<![ˈˌ{_VOWELS}])ɪ", "ə", said)
    return said


def plain_signs(ipa: str, language: str) -> str:
    """The signs of espeak-ng as Kokoro was trained with them, as its own JavaScript package writes them."""
    said = ipa
    if language == "cmn":
        said = said.translate(_TONES)
        for written, sign in _MANDARIN:
            said = said.replace(written, sign)
    return said.replace("ʲ", "j").replace("r", "ɹ").replace("x", "k").replace("ɬ", "l")
