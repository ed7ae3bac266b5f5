"""The choice of words."""

from __future__ import annotations

import pytest

from auricle.errors import DataError, SettingsError
from auricle.speech.words import ALL_WORDS, DIGITS, WORD_SETS, select_words

_COUNTS = {"yes": 120, "no": 100, "up": 99, "cat": 3}


def _select(spec: str, counts: dict[str, int] = _COUNTS) -> tuple[str, ...]:
    return select_words(spec, counts, where="/speech")


def test_the_named_sets_are_those_of_speech_commands() -> None:
    assert len(ALL_WORDS) == 35
    assert WORD_SETS["gsc12"][-2:] == ("_unknown_", "_silence_")
    assert {name: len(words) for name, words in WORD_SETS.items()} == {"gsc12": 12, "gsc35": 35, "digits": 10}
    assert set(DIGITS) <= set(ALL_WORDS)


def test_a_list_keeps_its_order_and_may_name_special_labels() -> None:
    assert _select("yes, up,no") == ("yes", "up", "no")
    assert _select("yes,_unknown_,_silence_") == ("yes", "_unknown_", "_silence_")


def test_common_takes_every_word_with_enough_clips_by_the_alphabet() -> None:
    assert _select("common:100") == ("no", "yes")
    assert _select("common:1") == ("cat", "no", "up", "yes")


def test_a_set_needs_each_of_its_words() -> None:
    counts = dict.fromkeys(ALL_WORDS, 50)

    assert _select("gsc35", counts) == ALL_WORDS
    assert _select("gsc12", counts) == WORD_SETS["gsc12"]
    with pytest.raises(DataError, match='The word "four" has 0 clips in /speech and needs 10'):
        _select("digits", {**counts, "four": 0})


def test_a_word_with_too_few_clips_is_named_with_its_count_and_folder() -> None:
    with pytest.raises(DataError, match='The word "cat" has 3 clips in /speech and needs 10'):
        _select("yes,cat")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("yes,nno", 'There is no word "nno" in /speech: did you mean "no"'),
        ("gsc21", 'There is no word "gsc21" in /speech: did you mean "gsc12"'),
        ("comon:100", 'is not a choice of words: did you mean "common"'),
        ("common:", "needs a number of clips"),
        ("common:-5", "needs a number of clips"),
        ("common:²", "needs a number of clips"),
        ("yes,,no", "has an empty place"),
        ("", "has an empty place"),
        ("yes,no,yes", 'names "yes" twice'),
        ("yes", "name at least two labels"),
        ("_unknown_,_silence_", "one of them a word"),
    ],
)
def test_a_choice_that_cannot_be_understood_is_refused(spec: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        _select(spec)


def test_common_with_too_high_a_number_says_which_would_do() -> None:
    with pytest.raises(DataError, match="two words have 110 clips or more in /speech: lower the number to 100 or less"):
        _select("common:110")
