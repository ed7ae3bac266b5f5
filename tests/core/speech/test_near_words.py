"""Near words: none sounds like a wake phrase or holds one, and they lie over the whole range of distances."""

from __future__ import annotations

import re

import pytest

from auricle.errors import SettingsError
from auricle.speech.confusables import holds_any
from auricle.speech.espeak import phonemes_of
from auricle.speech.near_words import OTHER_ABOVE, SAME_BELOW, near_words, relative_distance
from auricle.speech.pseudo_words import is_speakable, letters_of, syllables_of
from auricle.speech.voices import accents_of

pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")

PHRASES = {
    "en": ("hey robot", "alexa"),
    "de": ("hallo werkstatt", "hallo garten"),
    "fr": ("bonjour maison",),
    "pt-br": ("olá casa",),
    "pl": ("cześć robocie",),
    "tr": ("merhaba ev",),
    "ru": ("привет дом",),
    "el": ("γεια σου σπίτι",),
    "hi": ("नमस्ते घर",),
    "cmn": ("你好机器人",),
    "ar": ("مرحبا بيت",),
    "ko": ("안녕 로봇",),
}


def _sounds(language: str, texts: list[str]) -> dict[str, tuple[str, ...]]:
    marked = phonemes_of("en-us" if language == "en" else language, texts)
    spelled = [tuple(filter(None, (re.sub(r"\([a-z0-9-]+\)", "", sound) for sound in sounds))) for sounds in marked]
    return dict(zip(texts, spelled, strict=True))


@pytest.mark.parametrize("language", PHRASES)
def test_no_text_sounds_like_a_phrase_or_holds_one(language: str) -> None:
    phrases = PHRASES[language]
    near = near_words(phrases, language)
    assert tuple(near) == phrases
    texts = list({text for texts in near.values() for text in texts})
    sounds = _sounds(language, [*phrases, *texts])
    for phrase, found in near.items():
        assert len(found) == len(set(found)) == 60
        assert len({sounds[text] for text in found}) == 60
        assert set(phrase.split()) - {phrase} <= set(found)
    assert not [text for text in texts if holds_any(text, phrases)]
    assert all(relative_distance(sounds[text], sounds[phrase]) > SAME_BELOW for text in texts for phrase in phrases)


@pytest.mark.parametrize("language", ["en", "de", "ru", "hi", "ko"])
def test_pseudo_words_lie_over_the_whole_range_and_not_the_nearest_first(language: str) -> None:
    phrase = PHRASES[language][0]
    pseudo = near_words([phrase], language, 80, seed=2)[phrase][40:]
    sounds = _sounds(language, [phrase, *pseudo])
    distances = [relative_distance(sounds[text], sounds[phrase]) for text in pseudo]
    assert all(SAME_BELOW < distance < OTHER_ABOVE for distance in distances)
    thirds = [sum(low < distance <= low + 0.16 for distance in distances) for low in (0.12, 0.28, 0.44)]
    assert min(thirds) >= 4, thirds
    assert distances != sorted(distances)
    assert min(distances[:10]) < 0.3 < max(distances[:10])


@pytest.mark.parametrize(("language", "phrase"), [("en", "hey robot"), ("fr", "bonjour maison"), ("pt", "olá cozinha")])
def test_no_text_sounds_like_its_phrase_in_any_accent(language: str, phrase: str) -> None:
    near = near_words([phrase], language)[phrase]
    assert len(near) == 60
    for accent in accents_of(language):
        sounds = _sounds(accent, [phrase, *near])
        assert min(relative_distance(sounds[text], sounds[phrase]) for text in near) > SAME_BELOW


def test_a_phrase_gives_its_parts_its_words_in_the_other_order_and_english_confusables() -> None:
    near = near_words(["hey robot"], count=100)["hey robot"]
    assert near[:2] == ("hey", "robot")
    assert {"robot hey", "hey rob", "hey ro", "obot", "bot", "hey robo", "hey rabbit"} <= set(near)
    assert not {"h", "t", "hey r"} & set(near)


def test_the_same_seed_gives_the_same_texts_and_another_does_not() -> None:
    first = near_words(["hallo werkstatt"], "de", 40, seed=1)
    assert near_words(["hallo werkstatt"], "de", 40, seed=1) == first
    assert near_words(["hallo werkstatt"], "de", 40, seed=2) != first


def test_a_text_of_one_phrase_that_another_sounds_like_is_left_out() -> None:
    alone = near_words(["hey robot"], count=100)["hey robot"]
    assert {"hat robot", "hey rabbit"} <= set(alone)
    both = near_words(["hey robot", "hey rabbit", "robot"], count=100)
    sounds = _sounds("en", ["hey rabbit", "robot", *both["hey robot"]])
    assert all(relative_distance(sounds[text], sounds["hey rabbit"]) > SAME_BELOW for text in both["hey robot"])
    assert not [text for texts in both.values() for text in texts if "robot" in text.split()]


def test_a_short_phrase_has_fewer_and_labels_that_are_no_words_are_passed_over() -> None:
    near = near_words(["No", "_unknown_", "_silence_"])
    assert list(near) == ["No"]
    assert {"note", "snow"} <= set(near["No"])
    assert len(near["No"]) < 60


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((["hey"], "en", 0), "count is 0"),
        ((["hey"], "en", 5, -1), "seed is -1"),
        ((["hallo"], "german"), 'did you mean "de"'),
        ((["hallo", " "], "de"), "is empty"),
        ((["..."], "de"), "write the phrase"),
    ],
)
def test_what_has_no_near_words_is_refused(arguments: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        near_words(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "syllables"),
    [
        ("robot", ["ro", "bot"]),
        ("werkstatt", ["werks", "tatt"]),
        ("alexa", ["a", "le", "xa"]),
        ("olá", ["o", "lá"]),
        ("привет", ["при", "вет"]),
        ("hmm", ["h", "m", "m"]),
        ("नमस्ते", ["न", "म", "स्", "ते"]),
    ],
)
def test_words_are_cut_at_their_vowels_and_letters_keep_their_marks(word: str, syllables: list[str]) -> None:
    assert syllables_of(word) == syllables
    assert "".join(letters_of(word)) == word


@pytest.mark.parametrize(
    ("part", "speakable"), [("ro", True), ("r", False), ("st", False), ("م", False), ("مر", True), ("你", True)]
)
def test_a_part_that_would_be_spelled_is_told_from_one_that_is_said(part: str, speakable: bool) -> None:
    assert is_speakable(part) is speakable
