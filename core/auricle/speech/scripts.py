"""Which of espeak-ng's languages reads a text, and which only says the names of its letters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from auricle.errors import SettingsError
from auricle.speech.espeak import SWITCH, phonemes_of
from auricle.speech.voices import ENGLISH_CODE, OTHER_NAMES, accents_of

LATIN = "LATIN"
SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "ARABIC": ("ar", "fa", "ur", "sd", "ug"),
    "ARMENIAN": ("hy", "hyw"),
    "BENGALI": ("bn", "as", "bpy"),
    "CJK": ("cmn", "yue"),
    "CYRILLIC": ("ru", "uk", "bg", "be", "mk", "sr", "kk", "ky", "tt", "ba", "cv", "nog"),
    "DEVANAGARI": ("hi", "mr", "ne", "kok"),
    "ETHIOPIC": ("am", "ti"),
    "GEORGIAN": ("ka",),
    "GREEK": ("el", "grc"),
    "GUJARATI": ("gu",),
    "GURMUKHI": ("pa",),
    "HANGUL": ("ko",),
    "HEBREW": ("he",),
    "HIRAGANA": ("ja",),
    "KANNADA": ("kn",),
    "KATAKANA": ("ja",),
    "MALAYALAM": ("ml",),
    "MYANMAR": ("my", "shn"),
    "ORIYA": ("or",),
    "SINHALA": ("si",),
    "TAMIL": ("ta",),
    "TELUGU": ("te",),
    "THAI": ("th",),
}
"""Scripts but the Latin one, as Unicode calls them, and the languages of espeak-ng that read them: others spell."""

_NO_SCRIPT = frozenset({"COMBINING", "MODIFIER", "KATAKANA-HIRAGANA", "ZERO"})
_WITH_MARKS = ("vi", "cy", "ga", "smj", "haw", "gn")
"""Languages that read Latin letters with marks which others spell."""
_MOST_SOUNDS = 4
"""Phonemes that one letter may be; the name of one has more."""
_MOST_NAMED = 3
_BOTH = "sr"
"""The language of two scripts."""


def refuse_unread(phrases: Iterable[str], language: str) -> None:
    """Refuse phrases that voices of a language would spell out: a model learns nothing of use from names of letters.

    Raises
    ------
    SettingsError
        The sentence names the languages that read the phrase. Also where espeak-ng does not have the language.
    DataError
        espeak-ng is not installed or fails.
    """
    code = OTHER_NAMES.get(language.lower(), language.lower()).split("-")[0]
    accent = accents_of(language)[0]
    own = {script for script, codes in SCRIPTS.items() if code in codes} or {LATIN}
    for phrase in phrases:
        scripts = scripts_of(phrase)
        foreign = next((script for script in scripts if script not in (LATIN, *own)), "")
        spelled = [] if foreign else _letters_by_name(accent, phrase)
        if foreign:
            what, readers = f"{'Chinese' if foreign == 'CJK' else foreign.title()} letters", SCRIPTS.get(foreign, ())
        elif spelled:
            others = next((script for script in scripts_of(spelled[0]) if script != LATIN), LATIN)
            what, readers = f'the letter "{spelled[0]}"', SCRIPTS.get(others, _WITH_MARKS)
        elif LATIN in scripts and LATIN not in own and code != _BOTH and _is_spelled(accent, phrase):
            what, readers = "Latin letters", (ENGLISH_CODE,)
        else:
            continue
        fitting = (each for each in readers if not _letters_by_name(accents_of(each)[0], phrase))
        raise SettingsError(_unread(phrase, language, what, list(islice(fitting, _MOST_NAMED))))


def scripts_of(text: str) -> list[str]:
    """The scripts of a text's letters, as Unicode calls them, in the order in which they come."""
    names = (unicodedata.name(letter, "").split(" ") for letter in text if unicodedata.category(letter)[0] == "L")
    return list(dict.fromkeys(name[0] for name in names if name[0] and name[0] not in _NO_SCRIPT))


def _letters_by_name(accent: str, phrase: str) -> list[str]:
    """The letters, beyond those of English, that a voice says by their names: without one are far fewer sounds."""
    letters = [letter for letter in dict.fromkeys(phrase) if not letter.isascii() and letter.isalpha()]
    if not letters:
        return []
    whole, *without = map(_count, phonemes_of(accent, [phrase, *(phrase.replace(each, "") or "a" for each in letters)]))
    pairs = zip(letters, without, strict=True)
    return [letter for letter, count in pairs if whole - count > _MOST_SOUNDS * phrase.count(letter)]


def _count(sounds: Sequence[str]) -> int:
    return sum(bool(SWITCH.sub("", sound)) for sound in sounds)


def _is_spelled(accent: str, phrase: str) -> bool:
    """Whether a word of the phrase is its letters' names, one after the other."""
    words = [word for word in phrase.split() if len(word) > 1]
    texts = [*words, *dict.fromkeys("".join(words))]
    said = [SWITCH.sub("", "".join(sounds)) for sounds in phonemes_of(accent, texts)]
    sounds = dict(zip(texts, said, strict=True))
    return any(sounds[word] == "".join(sounds[letter] for letter in word) for word in words)


def _unread(phrase: str, language: str, what: str, readers: Sequence[str]) -> str:
    if not readers:
        return (
            f'"{phrase}" has {what}, which no language of espeak-ng reads: write it as it is said, in letters of '
            f'"{language}".'
        )
    named = f"--language {' or '.join(readers)}"
    return (
        f'Voices of the language "{language}" spell "{phrase}", for it has {what}: {named} reads it, or write it as it '
        f'is said, in letters of "{language}".'
    )
