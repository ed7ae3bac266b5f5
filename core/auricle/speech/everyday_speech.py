"""Everyday running speech for synthetic speakers: English sentences, and joined phrases of other languages.

Running speech is where a wake word is falsely heard: every word stands between others, and sounds run together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from auricle.errors import SettingsError, nearest
from auricle.speech.confusables import holds_any
from auricle.speech.everyday_english import OWN_SENTENCES, PATTERNS, WORDS
from auricle.speech.other_speech import ENGLISH, FOREIGN
from auricle.speech.spelling import small_letters
from auricle.speech.voices import ENGLISH_CODE, OTHER_NAMES

FEWEST_WORDS, MOST_WORDS = 6, 14
"""How long an English sentence is."""

_PHRASES = (3, 6)
_TRIES_FOR_ONE = 50
_WITHOUT_SPACES = frozenset({"cmn"})
_PLACE = re.compile(r"\{(\w+)\}")


def everyday_sentences(
    language: str = ENGLISH_CODE, count: int = 300, seed: int = 0, *, without: Sequence[str] = ()
) -> tuple[str, ...]:
    """Give different sentences of everyday life in a random order.

    In English half of them, while there are enough, were written one by one and the others come from patterns, 6 to 14
    words each. In another language each is three to six of the phrases in `FOREIGN`, one after the other.

    Parameters
    ----------
    language
        English, or a language in `FOREIGN`, by its English name or by espeak-ng's: `german`, `de`, `en-us`.
    count
        How many.
    seed
        Decides which.
    without
        Phrases that no sentence may hold, as `holds_any` finds them.

    Raises
    ------
    SettingsError
        There are no texts in the language or not so many, or a number is out of range.
    """
    for name, value, least in (("count", count, 1), ("seed", seed, 0)):
        if value < least:
            raise SettingsError(f"{name} is {value} and must be at least {least}.")
    code = _code_of(language)
    rng = np.random.default_rng([seed, 13])
    if code == ENGLISH_CODE:
        own = [sentence for sentence in OWN_SENTENCES if not _holds(sentence, without, code)]
        drawn = [own[place] for place in rng.permutation(len(own))[: (count + 1) // 2]]
        make: Callable[[np.random.Generator], str] = _from_pattern
    else:
        drawn, phrases = [], _phrases(code, without)
        if not phrases:
            raise SettingsError(
                f'Every phrase in the language "{language}" holds a wake phrase: choose another language.'
            )

        def make(rng: np.random.Generator) -> str:
            return _join(phrases, rng)

    sentences = dict.fromkeys(drawn)
    for sentence in (make(rng) for _ in range(count * _TRIES_FOR_ONE)):
        if len(sentences) == count:
            break
        if not _holds(sentence, without, code):
            sentences[sentence] = None
    if len(sentences) < count:
        raise SettingsError(
            f'There are {len(sentences)} different sentences in the language "{language}" and {count} were asked for: '
            "ask for fewer."
        )
    found = list(sentences)
    return tuple(found[place] for place in rng.permutation(count))


def _code_of(language: str) -> str:
    code = code_of_language(language)
    if code is None:
        known = {ENGLISH, ENGLISH_CODE, *FOREIGN, *(speech.voice for speech in FOREIGN.values())}
        raise SettingsError(f'There are no sentences in the language "{language}": {nearest(language, known)}')
    return code


def code_of_language(language: str) -> str | None:
    """espeak-ng's own name of a language that there are texts in."""
    codes = {ENGLISH: ENGLISH_CODE, **{name: speech.voice for name, speech in FOREIGN.items()}}
    name = OTHER_NAMES.get(language.lower(), language.lower())
    code = codes.get(name, name.split("-")[0])
    return code if code in codes.values() else None


def _from_pattern(rng: np.random.Generator) -> str:
    """Fill a pattern, with different words in its places."""
    while True:
        pattern = PATTERNS[int(rng.integers(len(PATTERNS)))]
        names = _PLACE.findall(pattern)
        words = [WORDS[name][int(rng.integers(len(WORDS[name])))] for name in names]
        if len(set(words)) < len(words):
            continue
        sentence = _PLACE.sub("{}", pattern).format(*words)
        if FEWEST_WORDS <= len(sentence.split()) <= MOST_WORDS:
            return sentence


def _phrases(code: str, without: Sequence[str]) -> list[str]:
    texts = next(speech.texts for speech in FOREIGN.values() if speech.voice == code)
    return [text for text in texts if not _holds(text, without, code)]


def _join(phrases: Sequence[str], rng: np.random.Generator) -> str:
    """Say some of the phrases one after the other, half of the time with a pause between two."""
    count = min(int(rng.integers(_PHRASES[0], _PHRASES[1] + 1)), len(phrases))
    chosen: list[str] = [phrases[place] for place in rng.permutation(len(phrases))[:count]]
    joints = [", " if rng.random() < 0.5 else " " for _ in chosen[1:]]
    return chosen[0] + "".join(joint + phrase for joint, phrase in zip(joints, chosen[1:], strict=True))


def _holds(text: str, phrases: Sequence[str], code: str) -> bool:
    words = _words(text)
    if code in _WITHOUT_SPACES:
        return any("".join(_words(phrase)) in "".join(words) for phrase in phrases)
    return holds_any(" ".join(words), [" ".join(_words(phrase)) for phrase in phrases])


def _words(text: str) -> list[str]:
    return small_letters(text.replace(",", " ")).split()
