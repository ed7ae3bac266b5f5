"""Words that do not exist: a phrase with letters or syllables replaced, dropped or inserted, in any script."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

_VOWELS: Mapping[str, str] = {"LATIN": "aeiou", "CYRILLIC": "аеиоу", "GREEK": "αεηιοου"}
_CONSONANTS: Mapping[str, str] = {
    "LATIN": "bdfgklmnprstvz",
    "CYRILLIC": "бвгдзклмнпрстфш",
    "GREEK": "βγδθκλμνπρστφχ",
}
_SYLLABARIES = frozenset({"HANGUL", "HIRAGANA", "KATAKANA", "CJK"})
_ALL_VOWELS = frozenset("aeiouyæøœıаеёиоуыэюяєіїαεηιουω")
_LETTERS = {
    "ARABIC": "ابتجدرزسشعفقكلمنوي",
    "HEBREW": "אבגדהוזחטיכלמנספקרשת",
    "DEVANAGARI": "ककाकिकोगाचाजीटातादीनानीपाबाभीमामीयारारीलालीवाशासासीहा",
    "BENGALI": "কাকিগাচাজাতাদিনানিপাবামামিরারিলাশাসাহা",
    "HANGUL": "가거고구기나노누니다도두라로루리마모무미바보부비사소수시아오우이자주지하호",
    "HIRAGANA": "あいうえおかきくけこさしすせそたちつてとなにのはひふまみもやゆよらりるれろ",
    "KATAKANA": "アイウエオカキクケコサシスセソタチツテトナニノハヒフマミモヤユヨラリルレロ",
    "CJK": "一大小人天地水火山石木花马牛鱼鸟高低长短红白黑来去走看听说好多少门书手心春冬东西南北米饭茶",
}


def pseudo_phrase(phrase: str, rng: np.random.Generator) -> str:
    """Change one or two letters or syllables of a phrase; each word keeps a vowel where its script writes them.

    A letter is replaced by one of its kind, a vowel by a vowel, and a syllable by a new one of its script.
    """
    words = phrase.split()
    for _ in range(int(rng.integers(1, 3))):
        place = int(rng.integers(len(words)))
        words[place] = _change(words[place], rng)
    return " ".join(words)


def syllables_of(word: str) -> list[str]:
    """Cut a word into syllables, each with one group of vowels; a word without the vowels known here into letters.

    Of the consonants between two vowels the last one begins the next syllable: "ro", "bot" and "werks", "tatt".
    """
    letters = letters_of(word)
    vowels = [_is_vowel(letter) for letter in letters]
    if not any(vowels):
        return letters
    starts = [0]
    for place in range(1, len(letters) - 1):
        begins = not vowels[place] and vowels[place + 1]
        if begins and any(vowels[starts[-1] : place]):
            starts.append(place)
    return ["".join(letters[start:end]) for start, end in zip(starts, [*starts[1:], len(letters)], strict=True)]


def is_speakable(part: str) -> bool:
    """Whether a part of a word can be said as a word and not only be spelled: a syllable, by its script."""
    script = _script(part)
    if script in _CONSONANTS:
        return _writes_vowels(part)
    return script in _SYLLABARIES or len(letters_of(part)) > 1


def letters_of(word: str) -> list[str]:
    """Split a word into its letters, each with the marks that belong to it."""
    letters: list[str] = []
    for sign in unicodedata.normalize("NFC", word):
        if letters and unicodedata.category(sign).startswith("M"):
            letters[-1] += sign
        else:
            letters.append(sign)
    return letters


def _change(word: str, rng: np.random.Generator) -> str:
    """Change one letter or one syllable of a word; the word itself where that leaves nothing to say."""
    by_syllable = _writes_vowels(word) and rng.random() < 0.4
    units = syllables_of(word) if by_syllable else letters_of(word)
    new = _syllable_like if by_syllable else _letter_like
    place = int(rng.integers(len(units)))
    kind = rng.choice(3, p=(0.6, 0.2, 0.2))
    if kind == 0:
        changed = [*units[:place], new(units[place], word, rng), *units[place + 1 :]]
    elif kind == 1:
        changed = [*units[:place], *units[place + 1 :]]
    else:
        changed = [*units[:place], new(units[place], word, rng), *units[place:]]
    spelled = "".join(changed)
    spoken = _writes_vowels(spelled) or not _writes_vowels(word)
    return spelled if spelled and spoken else word


def _letter_like(letter: str, word: str, rng: np.random.Generator) -> str:
    script = _script(letter)
    if script in _CONSONANTS:
        return _one_of((_VOWELS if _is_vowel(letter) else _CONSONANTS)[script], rng)
    return _one_of(letters_of(_LETTERS.get(script, word)), rng)


def _syllable_like(_syllable: str, word: str, rng: np.random.Generator) -> str:
    script = next((name for name in map(_script, word) if name in _CONSONANTS), "LATIN")
    return _one_of(_CONSONANTS[script], rng) + _one_of(_VOWELS[script], rng)


def _one_of(choices: Sequence[str], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]


def _is_vowel(letter: str) -> bool:
    return unicodedata.normalize("NFD", letter)[:1] in _ALL_VOWELS


def _writes_vowels(word: str) -> bool:
    return any(_is_vowel(letter) for letter in letters_of(word))


def _script(letter: str) -> str:
    return unicodedata.name(letter[:1], "").split()[0] if letter else ""
