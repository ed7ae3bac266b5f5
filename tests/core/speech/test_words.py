"""The choice of words."""

from __future__ import annotations

import pytest

from auricle.errors import DataError, PackError, SettingsError
from auricle.speech.words import ALL_WORDS, DIGITS, WORD_SETS, select_words

_COUNTS = {"yes": 120, "no": 100, "up": 99, "cat": 3}


def _select(spec: str, counts: dict[str, int] = _COUNTS) -> tuple[str, ...]:
    return select_words(spec, counts, where="/speech")


def test_the_named_sets_are_those_of_speech_commands() -> None:
    assert len(ALL_WORDS) == 35
    assert WORD_SETS["gsc12"][-2:] == ("_unknown_", "_silence_")
    lengths = {"gsc12": 12, "gsc35": 35, "digits": 10, "urbansound": 10, "emotions": 4}
    assert {name: len(words) for name, words in WORD_SETS.items()} == lengths
    assert set(DIGITS) <= set(ALL_WORDS)


def test_a_list_keeps_its_order_and_may_name_special_labels() -> None:
    assert _select("yes, up,no") == ("yes", "up", "no")
    assert _select("yes,_unknown_,_silence_") == ("yes", "_unknown_", "_silence_")


@pytest.mark.parametrize("spec", ["yes,../up", "common:99"])
def test_a_folder_whose_name_is_no_label_is_refused(spec: str) -> None:
    with pytest.raises(PackError, match=r'"\.\./up" in /speech is not a valid label'):
        _select(spec, {**_COUNTS, "../up": 200})


def test_common_takes_every_word_with_enough_clips_by_the_alphabet() -> None:
    assert _select("common:100") == ("no", "yes")
    assert _select("common:1") == ("cat", "no", "up", "yes")


def test_a_set_needs_each_of_its_words() -> None:
    counts = dict.fromkeys(ALL_WORDS, 50)
    assert _select("gsc35", counts) == ALL_WORDS
    assert _select("gsc12", counts) == WORD_SETS["gsc12"]
    with pytest.raises(DataError, match='The word "four" has 0 clips in /speech and needs 10'):
        _select("digits", {**counts, "four": 0})


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("yes,nno", 'did you mean "no"'),
        ("gsc21", 'did you mean "gsc12"'),
        ("comon:100", 'did you mean "common"'),
        *((spec, "number of clips") for spec in ("common:", "common:-5", "common:²")),
        *((spec, "empty place") for spec in ("yes,,no", "")),
        ("yes,no,yes", '"yes" twice'),
        ("yes", "two labels"),
        ("_unknown_,_silence_", "a word"),
    ],
)
def test_a_choice_that_cannot_be_understood_is_refused(spec: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        _select(spec)


def test_too_few_clips_are_named_with_their_count_and_too_high_a_number_with_which_would_do() -> None:
    with pytest.raises(DataError, match='"cat" has 3 clips in /speech'):
        _select("yes,cat")
    with pytest.raises(DataError, match="100 or less"):
        _select("common:110")
