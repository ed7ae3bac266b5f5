"""What keywords are mistaken for: no text may be a keyword, hold one, or sound exactly like one."""

from __future__ import annotations

import pytest

from auricle.speech.confusables import ALIKE, HOMOPHONES, confusables, holds_any, nearest_in_sound, sound_distance
from auricle.speech.espeak import phonemes_of
from auricle.speech.other_speech import FOREIGN
from auricle.speech.voices import ACCENTS
from auricle.speech.words import ALL_WORDS, WORD_SETS

pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")


def _sound(voice: str, texts: list[str]) -> dict[str, str]:
    """Spell texts, with long and short vowels taken for the same."""
    said = zip(texts, phonemes_of(voice, texts), strict=True)
    return {text: "".join(sounds).replace("ː", "") for text, sounds in said}


def test_every_keyword_that_is_shipped_has_its_list() -> None:
    assert set(ALIKE) == {*ALL_WORDS, "computer", "jarvis"}
    assert all(6 <= len(texts) == len(set(texts)) <= 16 for texts in ALIKE.values())
    assert all(part.isascii() and part.islower() for texts in ALIKE.values() for text in texts for part in text.split())


@pytest.mark.parametrize("accent", ACCENTS)
def test_no_text_has_a_word_that_sounds_exactly_like_its_keyword(accent: str) -> None:
    keywords = _sound(accent, sorted(ALIKE))
    words = _sound(accent, sorted({word for texts in ALIKE.values() for text in texts for word in text.split()}))
    said = [(key, word) for key, texts in ALIKE.items() for text in texts for word in text.split()]
    assert not [(key, word) for key, word in said if words[word] == keywords[key]]


def test_no_foreign_word_sounds_exactly_like_a_shipped_keyword() -> None:
    keywords = {sound for accent in ACCENTS for sound in _sound(accent, sorted(ALIKE)).values()}
    for speech in FOREIGN.values():
        words = _sound(speech.voice, sorted({word for text in speech.texts for word in text.split()}))
        assert all(words.values())
        assert not [word for word, sound in words.items() if sound in keywords]


@pytest.mark.parametrize("labels", WORD_SETS.values(), ids=WORD_SETS)
def test_no_label_of_a_set_is_among_its_other_words(labels: tuple[str, ...]) -> None:
    found = confusables(labels)
    assert set(found) == {label for label in labels if not label.startswith("_")}
    assert not [text for texts in found.values() for text in texts if holds_any(text, labels)]
    assert min(map(len, found.values())) >= 6


def test_a_text_is_left_out_where_another_keyword_or_its_homophone_stands_in_it() -> None:
    assert confusables(["tree"])["tree"] == ALIKE["tree"]
    assert "for what" in confusables(["forward"])["forward"]
    assert "for what" not in confusables(["forward", "four"])["forward"]
    assert "fallow" not in confusables(["follow", "fallow"])["follow"]


@pytest.mark.parametrize(
    ("text", "keyword", "held"),
    [
        ("no one", "no", True),
        ("nobody", "no", False),
        ("i know it", "no", True),
        ("hey jarvis please", "hey jarvis", True),
        ("hey you jarvis", "hey jarvis", False),
        ("Turn  It ON", "on", True),
    ],
)
def test_a_keyword_is_held_as_a_word_of_its_own(text: str, keyword: str, held: bool) -> None:
    assert holds_any(text, [keyword]) is held


def test_homophones_are_said_as_their_keyword_in_some_accent() -> None:
    spelled = [*HOMOPHONES, *(word for words in HOMOPHONES.values() for word in words)]
    sounds = [_sound(accent, spelled) for accent in ACCENTS]
    sounds.append({**sounds[0], **_sound("de", ["nein"])})
    for keyword, words in HOMOPHONES.items():
        for word in words:
            near = [sound_distance(said[word], said[keyword]) for said in sounds]
            assert min(near) <= 1, (keyword, word)


def test_words_alike_to_any_keyword_are_found_by_their_sound() -> None:
    near = nearest_in_sound("yes", ["banana", "yet", "guess", "yes", "less", "computer"], 3)
    assert near == ("guess", "less", "yet")
    found = confusables(["alexa", "_unknown_"], count=5)
    assert list(found) == ["alexa"]
    assert len(found["alexa"]) == 5
    assert "alex" in found["alexa"]


def test_a_phrase_is_mistaken_for_its_words_and_for_itself_with_one_of_them_replaced() -> None:
    found = confusables(["hey jarvis", "stop"])["hey jarvis"]
    assert found[:3] == ("hey", "jarvis", "jarvis hey")
    assert len(found) == len(set(found)) == 12
    assert {text.split()[0] for text in found[3:]} > {"hey"}
    assert {text.split()[1] for text in found[3:]} > {"jarvis"}
    with_its_word = confusables(["hey jarvis", "jarvis"])
    assert not any("jarvis" in text.split() for texts in with_its_word.values() for text in texts)


def test_the_distance_of_sounds_is_worked_out_by_hand() -> None:
    """n-oʊ and n-oʊ-z: one more. n-oʊ and n-aʊ: a vowel for a vowel. j-ɛ-s and tʃ-ɛ-s-t: a change and one more."""
    assert sound_distance(("n", "oʊ"), ("n", "oʊ", "z")) == 1
    assert sound_distance(("n", "oʊ"), ("n", "aʊ")) == 0.5
    assert sound_distance(("j", "ɛ", "s"), ("tʃ", "ɛ", "s", "t")) == 2
    assert sound_distance((), ("a", "b", "c")) == 3
    assert sound_distance(("b",), ("a",)) == 1


def test_phonemes_come_without_stress_and_over_several_clauses() -> None:
    assert phonemes_of("en-us", ["no", "jarvis", "stop. Yes", ""]) == [
        ("n", "oʊ"),
        ("dʒ", "ɑːɹ", "v", "ɪ", "s"),
        ("s", "t", "ɑː", "p", "j", "ɛ", "s"),
        (),
    ]
