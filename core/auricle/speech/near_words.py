"""What a wake phrase of any language is mistaken for: parts of it, and pseudo-words that sound nearly the same.

A model that is trained on the phrase and on other speech alone fires at half of the phrase. These texts are what it
has to tell apart from it, spoken by voices of the phrase's own language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, permutations
from zlib import crc32

import numpy as np

from auricle.errors import SettingsError
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.speech.confusables import confusables, holds_any, sound_distance
from auricle.speech.espeak import SWITCH, phonemes_of
from auricle.speech.pseudo_words import is_speakable, letters_of, pseudo_phrase
from auricle.speech.scripts import refuse_unread
from auricle.speech.spelling import small_letters
from auricle.speech.voices import ACCENTS, accents_of

SAME_BELOW = 0.12
"""At this share of the phonemes or less nobody hears a difference: such a text is no negative."""

OTHER_ABOVE = 0.6
"""From this share of the phonemes on, a pseudo-word is not like the phrase."""

DEFAULT_COUNT = 60
"""Texts for a phrase."""

_FIRST = "en-us"
_BANDS = 8
_TRIES_FOR_ONE = 20
_SPARE = 4
_MOST_WORDS_REORDERED = 4
_LEAST_PHONEMES = 2

_Sounds = tuple[str, ...]


def near_words(
    phrases: Sequence[str], language: str = "en", count: int = DEFAULT_COUNT, seed: int = 0
) -> dict[str, tuple[str, ...]]:
    """Give for every phrase texts that it is mistaken for, at most `count`.

    At most half of them are the phrase's words alone, its beginnings and its ends, its words in another order, and in
    English `confusables`. The others are the phrase with one or two letters or syllables replaced, dropped or inserted.
    The distance of two texts is `sound_distance` over the longer one's number of phonemes. It is above `SAME_BELOW` to
    every phrase in every accent of the language; that of a pseudo-word to its phrase is below `OTHER_ABOVE`,
    and they are drawn evenly over what lies between, in a random order.

    Parameters
    ----------
    phrases
        Wake phrases in the language's own script; `_unknown_` and `_silence_` are passed over.
    language
        As `auricle.speech.voices.choose_voices` takes it.
    count
        Texts for a phrase; fewer where the phrase is so short that there are no more.
    seed
        Decides which pseudo-words are taken. A phrase's candidates do not depend on the other phrases.

    Returns
    -------
    dict[str, tuple[str, ...]]
        By phrase. Texts in small letters, no two of a phrase with the same sound, none with a phrase in it.

    Raises
    ------
    SettingsError
        espeak-ng does not have the language, its voices spell a phrase or have no sound for it, or a number is out of
        range.
    DataError
        espeak-ng is not installed or fails.
    """
    for name, value, least in (("count", count, 1), ("seed", seed, 0)):
        if value < least:
            raise SettingsError(f"{name} is {value} and must be at least {least}.")
    plain = {phrase: small_letters(phrase) for phrase in phrases if phrase not in SPECIAL_LABELS}
    wanted = tuple(dict.fromkeys(plain.values()))
    if "" in wanted:
        raise SettingsError("A phrase is empty: write what people say.")
    refuse_unread(wanted, language)
    accent, *others = _accents(language)
    english = confusables(wanted) if accent in ACCENTS else {}
    parts = {phrase: _without(wanted, chain(_parts(phrase), english.get(phrase, ()))) for phrase in wanted}
    pseudo = {phrase: _without(wanted, _pseudo_phrases(phrase, count, seed)) for phrase in wanted}
    sounds = _sounds_of(accent, chain(wanted, *parts.values(), *pseudo.values()))
    for phrase in wanted:
        if not sounds[phrase]:
            raise SettingsError(
                f'The voice of the language "{language}" has no sound for "{phrase}": write the phrase as it does.'
            )
    chosen: dict[str, list[str]] = {}
    for phrase in wanted:
        rng = np.random.default_rng([seed, 12, crc32(phrase.encode())])
        near = _different(parts[phrase], sounds, wanted)
        always = len(phrase.split())
        near = [*near[:always], *_draw(near[always:], max(0, count // 2 - always), rng)][:count]
        heard = {sounds[text] for text in near}
        alike = [text for text in _different(pseudo[phrase], sounds, wanted) if sounds[text] not in heard]
        spare = count // _SPARE if others else 0
        chosen[phrase] = [*near, *_spread(phrase, alike, sounds, wanted, count - len(near) + spare, rng)]
    same = _same_elsewhere(others, wanted, list(chain(*chosen.values())))
    return {phrase: tuple(near for near in chosen[text] if near not in same)[:count] for phrase, text in plain.items()}


def _accents(language: str) -> tuple[str, ...]:
    """The language's accents, the one first in which distances are measured: as in `confusables`, American English."""
    accents = accents_of(language)
    return tuple(sorted(accents, key=lambda accent: accent != _FIRST)) if _FIRST in accents else accents


def relative_distance(one: Sequence[str], other: Sequence[str]) -> float:
    """`sound_distance` over the number of phonemes of the longer one, 0 to 1."""
    return sound_distance(one, other) / max(len(one), len(other), 1)


def _parts(phrase: str) -> Iterator[str]:
    """The phrase's words, its words in other orders, and its beginnings and ends."""
    words = phrase.split()
    if len(words) > 1:
        yield from words
        yield " ".join(words[::-1])
    if len(words) <= _MOST_WORDS_REORDERED:
        yield from (" ".join(order) for order in permutations(words) if list(order) != words)
    for place, word in enumerate(words):
        for beginning, end in _cuts(word):
            yield " ".join([*words[:place], beginning])
            yield " ".join([end, *words[place + 1 :]])
        if place:
            yield " ".join(words[:place])
            yield " ".join(words[place:])


def _cuts(word: str) -> Iterator[tuple[str, str]]:
    """Beginnings and ends of a word; the whole word in place of one that cannot be said."""
    letters = letters_of(word)
    for cut in range(1, len(letters)):
        beginning, end = "".join(letters[:cut]), "".join(letters[cut:])
        yield beginning if is_speakable(beginning) else word, end if is_speakable(end) else word


def _pseudo_phrases(phrase: str, count: int, seed: int) -> list[str]:
    rng = np.random.default_rng([seed, 11, crc32(phrase.encode())])
    return [pseudo_phrase(phrase, rng) for _ in range(count * _TRIES_FOR_ONE)]


def _without(phrases: Sequence[str], texts: Iterable[str]) -> list[str]:
    """Different texts that do not hold a phrase."""
    return [text for text in dict.fromkeys(texts) if text and not holds_any(text, phrases)]


def _sounds_of(accent: str, texts: Iterable[str]) -> dict[str, _Sounds]:
    """Spell every text, without the marks of where the voice goes over to another language's rules."""
    said = list(dict.fromkeys(texts))
    spelled = (
        tuple(sound for mark in sounds if (sound := SWITCH.sub("", mark))) for sounds in phonemes_of(accent, said)
    )
    return dict(zip(said, spelled, strict=True))


def _different(texts: Iterable[str], sounds: dict[str, _Sounds], phrases: Sequence[str]) -> list[str]:
    """The texts of two phonemes and more that sound neither like a phrase nor like a text before them."""
    heard: dict[_Sounds, str] = {}
    for text in texts:
        said = sounds[text]
        if len(said) < _LEAST_PHONEMES or said in heard:
            continue
        if all(relative_distance(said, sounds[phrase]) > SAME_BELOW for phrase in phrases):
            heard[said] = text
    return list(heard.values())


def _same_elsewhere(accents: Sequence[str], phrases: Sequence[str], texts: Sequence[str]) -> set[str]:
    """The texts that sound like a phrase in another accent: "ey robot" where nobody says an h."""
    same: set[str] = set()
    for accent in accents:
        sounds = _sounds_of(accent, [*phrases, *texts])
        said = [sounds[phrase] for phrase in phrases]
        same |= {text for text in texts if any(relative_distance(sounds[text], own) <= SAME_BELOW for own in said)}
    return same


def _spread(
    phrase: str,
    texts: Sequence[str],
    sounds: dict[str, _Sounds],
    phrases: Sequence[str],
    count: int,
    rng: np.random.Generator,
) -> list[str]:
    """Draw texts evenly from bands of the distance to the phrase."""
    bands: list[list[str]] = [[] for _ in range(_BANDS)]
    for text in texts:
        distance = relative_distance(sounds[text], sounds[phrase])
        if distance < OTHER_ABOVE and not any(_contains(sounds[text], sounds[other]) for other in phrases):
            place = int(_BANDS * (distance - SAME_BELOW) / (OTHER_ABOVE - SAME_BELOW))
            bands[min(place, _BANDS - 1)].append(text)
    bands = [_draw(band, len(band), rng) for band in bands]
    in_turn = [band[turn] for turn in range(max(map(len, bands))) for band in bands if turn < len(band)]
    return _draw(in_turn[:count], count, rng)


def _draw(texts: Sequence[str], count: int, rng: np.random.Generator) -> list[str]:
    return [texts[place] for place in rng.permutation(len(texts))[:count]]


def _contains(sounds: _Sounds, phrase: _Sounds) -> bool:
    """Whether the phrase's phonemes follow each other somewhere in a text's, also across the bounds of words."""
    return any(sounds[start : start + len(phrase)] == phrase for start in range(len(sounds) - len(phrase) + 1))
