"""Everyday sentences: different ones, of 6 to 14 words, with every sound of English, none with a phrase in it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from auricle.errors import SettingsError
from auricle.speech.confusables import ALIKE, COMMON_WORDS, holds_any
from auricle.speech.espeak import phonemes_of
from auricle.speech.everyday_english import OWN_SENTENCES
from auricle.speech.everyday_speech import code_of_language, everyday_sentences
from auricle.speech.other_speech import FOREIGN


def test_own_sentences_are_plain_words_and_different() -> None:
    assert len(set(OWN_SENTENCES)) == len(OWN_SENTENCES) >= 150
    letters = {letter for sentence in OWN_SENTENCES for letter in sentence}
    assert letters <= set("abcdefghijklmnopqrstuvwxyz' ")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_english_sentences_have_six_to_fourteen_words_and_no_word_twice_in_a_row(seed: int) -> None:
    sentences = everyday_sentences("en", 2_000, seed)
    assert len(set(sentences)) == 2_000
    assert {len(sentence.split()) for sentence in sentences} <= set(range(6, 15))
    assert not [text for text in sentences if any(one == two for one, two in pairwise(text.split()))]
    assert set(OWN_SENTENCES) <= set(sentences)


def test_half_of_few_sentences_are_own_ones() -> None:
    sentences = everyday_sentences("english", 100, 4)
    assert sum(sentence in OWN_SENTENCES for sentence in sentences) == 50


def test_all_sounds_of_english_come_up_in_many_words() -> None:
    pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")
    every = {sound for sounds in phonemes_of("en-us", [*COMMON_WORDS, *ALIKE]) for sound in sounds}
    sentences = everyday_sentences("en-us", 300, 0)
    counts = Counter(sound for sounds in phonemes_of("en-us", sentences) for sound in sounds)
    assert not every - counts.keys()
    consonants = [*"bdfɡhjklmnpstvwzðŋɹʃʒθ", "tʃ", "dʒ"]
    assert min(counts[sound] for sound in consonants) >= 10
    neighbours = {pair for text in sentences for pair in pairwise(text.split())}
    assert len(neighbours) > 1_500


def test_the_same_seed_gives_the_same_sentences_and_another_does_not() -> None:
    assert everyday_sentences("en", 50, 3) == everyday_sentences("en", 50, 3)
    assert everyday_sentences("en", 50, 3) != everyday_sentences("en", 50, 4)


@pytest.mark.parametrize("language", FOREIGN)
def test_phrases_of_another_language_are_joined(language: str) -> None:
    speech = FOREIGN[language]
    sentences = everyday_sentences(language, 200, 0)
    assert len(set(sentences)) == 200
    assert everyday_sentences(speech.voice, 200, 0) == sentences
    for sentence in sentences:
        assert sum(text in sentence for text in speech.texts) >= 3
        rest = sentence
        for text in sorted(speech.texts, key=len, reverse=True):
            rest = rest.replace(text, "")
        assert not rest.strip(", ")


def test_sentences_that_hold_a_phrase_are_left_out() -> None:
    without = ("kitchen", "the door", "Tuesday", "two")
    assert any(holds_any(sentence, without) for sentence in everyday_sentences("en", 1_000, 0))
    assert not any(holds_any(sentence, without) for sentence in everyday_sentences("en", 1_000, 0, without=without))
    german = everyday_sentences("de", 100, 0, without=["morgen"])
    assert "genau" in " ".join(german)
    assert not any("morgen" in sentence.lower().replace(",", "").split() for sentence in german)
    assert not any("你好" in sentence for sentence in everyday_sentences("zh", 100, 0, without=["你好"]))


@pytest.mark.parametrize(
    ("language", "known"),
    [("en", True), ("en-gb-scotland", True), ("fr-be", True), ("Mandarin", True), ("zh", True), ("sv", False)],
)
def test_which_languages_have_sentences(language: str, known: bool) -> None:
    assert (code_of_language(language) is not None) is known


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("en", 0), "count is 0"),
        (("en", 5, -1), "seed is -1"),
        (("germann", 5), 'did you mean "german"'),
        (("sv", 5), "no sentences in the language"),
    ],
)
def test_what_has_no_sentences_is_refused(arguments: tuple[str, int, int], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        everyday_sentences(*arguments)


def test_fewer_sentences_than_asked_for_are_a_mistake() -> None:
    one_left = [text for text in FOREIGN["german"].texts if text != "genau"]
    with pytest.raises(SettingsError, match='There are 1 different sentences in the language "german" and 9'):
        everyday_sentences("german", 9, 0, without=one_left)
    with pytest.raises(SettingsError, match="choose another language"):
        everyday_sentences("german", 9, 0, without=FOREIGN["german"].texts)
