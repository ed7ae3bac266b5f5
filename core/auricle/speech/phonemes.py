"""How alike two texts sound: the edit distance of the phonemes that espeak-ng speaks them with."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.speech.espeak import phonemes_of

_VOICE = "en-us"
_VOWELS = frozenset("aeiouyæøœɐɑɒɔəɘɚɛɜɝɞɤɨɪɯɵɶʉʊʌʏᵻ")
_VOWEL_FOR_VOWEL = 0.5


def nearest_in_sound(keyword: str, candidates: Sequence[str], count: int) -> tuple[str, ...]:
    """Give the `count` candidates that sound most like the keyword, the nearest first.

    The order is that of the edit distance over the length of the longer text, then of the alphabet. A candidate with
    the keyword's own phonemes is left out.

    Raises
    ------
    DataError
        espeak-ng is not installed or fails.
    """
    own, *others = phonemes_of(_VOICE, [keyword, *candidates])
    ranked = sorted(
        (sound_distance(own, sounds) / max(len(own), len(sounds)), text)
        for text, sounds in zip(candidates, others, strict=True)
        if sounds and sounds != own
    )
    return tuple(text for _, text in ranked[:count])


def sound_distance(one: Sequence[str], other: Sequence[str]) -> float:
    """Edit distance (Levenshtein 1966) of two rows of phonemes; a vowel in another's place counts one half."""
    before = [float(place) for place in range(len(other) + 1)]
    for row, sound in enumerate(one, start=1):
        current = [float(row)]
        for column, against in enumerate(other, start=1):
            change = before[column - 1] + _replacement(sound, against)
            current.append(min(change, before[column] + 1, current[-1] + 1))
        before = current
    return before[-1]


def _replacement(one: str, other: str) -> float:
    if one == other:
        return 0.0
    return _VOWEL_FOR_VOWEL if one[0] in _VOWELS and other[0] in _VOWELS else 1.0
