"""Synthetic speakers of every language that espeak-ng speaks; those of English are what they always were."""

from __future__ import annotations

from hashlib import sha256

import pytest

from auricle.errors import SettingsError
from auricle.speech.espeak import phonemes_of
from auricle.speech.other_speech import FOREIGN
from auricle.speech.voices import ACCENTS, accents_of, choose_voices, languages, most_voices

pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")


def test_the_english_speakers_of_the_shipped_packs_recipes_stay_the_same() -> None:
    chosen = [[choose_voices(count, seed) for count in (1, 64, 600, 664)] for seed in (0, 1, 7)]
    digest = sha256(repr(chosen).encode()).hexdigest()
    assert digest == "474cb97acf42d612f6d6cd8903ca91c9c22136afc15547ef4713cebfa31ba517"
    assert choose_voices(20, 3, "en") == choose_voices(20, 3)


@pytest.mark.parametrize(
    ("language", "accents"),
    [
        ("en", ACCENTS),
        ("de", ("de",)),
        ("fr", ("fr", "fr-be", "fr-ch")),
        ("es", ("es", "es-419")),
        ("es-419", ("es-419",)),
        ("pt", ("pt", "pt-br")),
        ("pt-BR", ("pt-br",)),
        ("zh", ("cmn",)),
        ("no", ("nb",)),
        ("en-us", ("en-us",)),
    ],
)
def test_a_language_is_spoken_in_all_its_accents_and_an_accent_alone(language: str, accents: tuple[str, ...]) -> None:
    assert accents_of(language) == accents
    assert most_voices(language) == most_voices("de") * len(accents)
    voices = choose_voices(most_voices("de"), 0, language)
    assert {voice.accent for voice in voices} == set(accents)
    assert len({voice.name for voice in choose_voices(most_voices(language), 0, language)}) == most_voices(language)


def test_the_first_speakers_are_the_same_whatever_their_number() -> None:
    assert choose_voices(100, 4, "fr")[:7] == choose_voices(7, 4, "fr")
    assert choose_voices(7, 5, "fr") != choose_voices(7, 4, "fr")


def test_every_language_has_its_accents_and_those_that_are_spoken_elsewhere_are_among_them() -> None:
    known = languages()
    assert known["en"] == ACCENTS
    assert {speech.voice for speech in FOREIGN.values()} <= known.keys()
    assert len(known) > 100
    accents = [accent for accents in known.values() for accent in accents]
    assert len(accents) == len(set(accents))
    assert all(language in accents for language in known)


@pytest.mark.parametrize("language", ["pt-br", "vi-vn-x-south", "nb", "sv", "ru-lv", "ltg", "ca-va"])
def test_espeak_finds_a_voice_by_the_name_of_its_accent(language: str) -> None:
    assert phonemes_of(choose_voices(1, 0, language)[0].espeak_name, ["a"]) != [()]


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("german", r'did you mean "de" \(German\)\?'),
        ("Portuguese", r'"pt" \(Portuguese \(Portugal\)\)'),
        ("dee", 'did you mean "de"'),
        ("xq", "there is: af, am,"),
        ("", "there is: af, am,"),
        ("fo", "there is: "),
    ],
)
def test_a_language_that_espeak_does_not_have_is_refused_with_the_nearest(language: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        choose_voices(1, 0, language)


def test_more_speakers_than_there_are_are_refused() -> None:
    with pytest.raises(SettingsError, match='synthetic speakers of the language "de" and 1000 were asked for'):
        choose_voices(1000, 0, "de")
