"""The judge's comparisons at their margins: a count more or less, and a chance that is just reached."""

from __future__ import annotations

import numpy as np
import pytest

from auricle_edge.training.judge.clips import Answers, answers, find_worse
from auricle_edge.training.judge.comparison import (
    Heard,
    accepts_more,
    hears_fewer,
    hears_more,
    improves,
    in_words,
    outgrows,
    sign_test,
    words_heard,
    worse_in,
)
from auricle_learning.training.learn_settings import LearnSettings

DEFAULT = LearnSettings()
KEYWORDS = 20


def _heard(accepts: int = 0, hits: int = KEYWORDS, *, first: int = 0, hours: float = 1.0) -> Heard:
    """So many seconds with a false accept, from a second on, and so many keywords that are heard, the first ones."""
    seconds = np.arange(60)
    return Heard(
        ((seconds >= first) & (seconds < first + accepts)).astype(np.uint8),
        (np.arange(KEYWORDS) < hits).astype(np.uint8),
        hours,
    )


# -- the test


@pytest.mark.parametrize(
    ("worse", "better", "chance"),
    [
        (0, 0, 1),
        (1, 0, 1 / 2),
        (0, 1, 1),
        (1, 1, 3 / 4),
        (5, 0, 1 / 32),
        (4, 1, 6 / 32),
        (1, 4, 31 / 32),
        (6, 1, 1 / 16),
    ],
)
def test_the_sign_test_is_that_of_a_fair_coin(worse: int, better: int, chance: float) -> None:
    """Of five tosses four or more are heads in 5 + 1 of 32 cases."""
    assert sign_test(worse, better) == chance


# -- what was heard


def test_what_was_heard_is_counted() -> None:
    heard = Heard(np.array([0, 2, 5], np.uint8), np.array([1, 1, 0, 1], np.uint8), 0.5)
    assert (heard.false_accepts, heard.per_hour) == (7, 14)
    assert in_words(heard) == "7 in 30 min"
    assert words_heard(heard) == "3 of 4 words heard"
    assert heard.detects(0.75)
    assert not heard.detects(0.76)


def test_without_sound_nothing_is_wrong_and_nothing_is_missed() -> None:
    nothing = Heard(np.zeros(0, np.uint8), np.zeros(0, np.uint8), 0.0)
    assert (nothing.false_accepts, nothing.per_hour) == (0, 0)
    assert nothing.detects(1.0)


def test_two_fit_that_are_of_as_many_seconds_and_words() -> None:
    one = _heard()
    assert one.fits(_heard(3, 4))
    assert not one.fits(Heard(one.accepts[1:], one.hits, 1.0))
    assert not one.fits(Heard(one.accepts, one.hits[1:], 1.0))


# -- margins and chance


@pytest.mark.parametrize(("more", "hours", "found"), [(4.9, 1.0, True), (5.0, 1.0, False), (1.0, 5.0, False)])
def test_more_false_accepts_are_more_than_the_margin_an_hour(more: float, hours: float, found: bool) -> None:
    """Five seconds are new: 1/32 by chance."""
    limits = LearnSettings(more_an_hour=more)
    assert accepts_more(_heard(hours=hours), _heard(5, hours=hours), limits) is found


@pytest.mark.parametrize(("chance", "found"), [(1 / 32, False), (0.032, True)])
def test_a_chance_that_is_just_reached_is_chance(chance: float, found: bool) -> None:
    limits = LearnSettings(chance=chance)
    assert accepts_more(_heard(), _heard(5), limits) is found
    assert hears_more(_heard(hits=0), _heard(hits=5), limits) is found
    assert hears_fewer(_heard(hits=5), _heard(hits=0), limits) is found


def test_seconds_that_got_better_count_against_those_that_got_worse() -> None:
    """Ten in place of five others: 15 changes of which 10 are for the worse."""
    assert not accepts_more(_heard(5), _heard(10, first=5), DEFAULT)
    assert accepts_more(_heard(5), _heard(10, first=0), DEFAULT)
    assert not accepts_more(_heard(10), _heard(5), DEFAULT)


@pytest.mark.parametrize(("margin", "found"), [(0.24, True), (0.25, False)])
def test_hearing_differs_by_more_than_its_margin(margin: float, found: bool) -> None:
    limits = LearnSettings(hears_more=margin, less_accuracy=margin)
    assert hears_more(_heard(hits=5), _heard(hits=10), limits) is found
    assert hears_fewer(_heard(hits=10), _heard(hits=5), limits) is found
    assert not hears_more(_heard(hits=10), _heard(hits=5), limits)
    assert not hears_fewer(_heard(hits=5), _heard(hits=10), limits)


def test_each_way_of_hearing_has_its_own_margin() -> None:
    few, many = _heard(hits=5), _heard(hits=10)
    assert not hears_more(few, many, LearnSettings(hears_more=0.5, less_accuracy=0.0))
    assert not hears_fewer(many, few, LearnSettings(hears_more=0.0, less_accuracy=0.5))


@pytest.mark.parametrize(("before", "after", "found"), [(9, 15, True), (10, 16, False), (9, 13, False), (9, 5, False)])
def test_who_hears_less_than_half_is_outgrown_by_who_hears_clearly_more(before: int, after: int, found: bool) -> None:
    assert outgrows(_heard(hits=before), _heard(hits=after), DEFAULT) is found


@pytest.mark.parametrize(
    ("heard", "worse"),
    [
        (_heard(5), "false_accepts"),
        (_heard(hits=10), "hits"),
        (_heard(5, 10), "false_accepts"),
        (_heard(4, 16), None),
        (_heard(), None),
    ],
)
def test_false_accepts_are_said_before_hits(heard: Heard, worse: str | None) -> None:
    assert worse_in(_heard(), heard, DEFAULT) == worse


@pytest.mark.parametrize(("hits", "worse"), [(2, "false_accepts"), (1, None)])
def test_who_hears_less_than_a_tenth_is_no_standard(hits: int, worse: str | None) -> None:
    assert worse_in(_heard(hits=hits), _heard(9, hits), DEFAULT) == worse


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ((3, 10), (3, 10), True),
        ((3, 10), (2, 10), True),
        ((3, 10), (3, 11), True),
        ((3, 10), (4, 11), False),
        ((3, 10), (2, 9), False),
        ((3, 10), (4, 16), True),
        ((12, 10), (3, 9), True),
        ((3, 10), (12, 16), False),
        ((12, 10), (3, 2), False),
    ],
)
def test_better_is_no_worse_in_both_or_clearly_better_in_one(
    before: tuple[int, int], after: tuple[int, int], found: bool
) -> None:
    assert improves(_heard(*before), _heard(*after), DEFAULT) is found


# -- clips


def _answers(negatives: int, accepted: int, keywords: int, right: int) -> Answers:
    place = np.arange(negatives + keywords)
    negative = place < negatives
    hit = ~negative & (place < negatives + right)
    false = negative & (place < accepted)
    return Answers(negative, false | hit, hit | (negative & ~false))


@pytest.mark.parametrize("name", ["_unknown_", "_silence_"])
def test_what_is_no_keyword_is_never_accepted(name: str) -> None:
    found = answers(np.array([[0, 9], [9, 0]], np.float32), np.array([1, 1]), ("yes", name), 0.5)
    assert found.negative.tolist() == [True, True]
    assert found.accepted.tolist() == [False, True]
    assert found.right.tolist() == [True, False]


def test_logits_of_any_size_are_posteriors() -> None:
    """ln 3 apart is 3 to 1, also where an exponential of them would overflow."""
    logits = np.array([[1000 + np.log(3), 1000.0], [-1000.0, -1000 + np.log(3)]])
    for accept, found in ((0.749, [True, True]), (0.751, [False, False])):
        assert answers(logits.astype(np.float64), np.array([0, 1]), ("a", "b"), accept).accepted.tolist() == found


def test_a_posterior_that_just_reaches_the_threshold_is_accepted() -> None:
    found = answers(np.zeros((2, 2), np.float32), np.array([0, 1]), ("a", "b"), 0.5)
    assert found.accepted.tolist() == [True, True]
    assert found.right.tolist() == [True, False]


def test_a_detector_accepts_and_is_right() -> None:
    keyword = np.zeros(4, np.bool_)
    heard = Answers(keyword, np.array([1, 1, 0, 1], np.bool_), np.array([1, 1, 1, 0], np.bool_))
    assert heard.detects(0.5)
    assert not heard.detects(0.51)
    assert Answers(~keyword, ~keyword, keyword).detects(1.0), "no keyword is held out"


@pytest.mark.parametrize(("margin", "found"), [(0.09, True), (0.1, False)])
def test_false_accepts_on_clips_grow_by_more_than_their_margin(margin: float, found: bool) -> None:
    limits = LearnSettings(more_false_accepts=margin, less_accuracy=1.0)
    reason = find_worse(_answers(60, 0, 20, 20), _answers(60, 6, 20, 20), limits)
    assert (reason == "worse_false_accepts: 6 of 60 held-out negatives, 0 before") is found
    assert (reason is None) is not found


@pytest.mark.parametrize(("margin", "found"), [(0.07, True), (0.075, False)])
def test_accuracy_on_clips_falls_by_more_than_its_margin(margin: float, found: bool) -> None:
    limits = LearnSettings(less_accuracy=margin, more_false_accepts=0.0)
    reason = find_worse(_answers(60, 0, 20, 20), _answers(60, 0, 20, 14), limits)
    assert reason == ("worse_accuracy: 74 of 80 held-out clips right, 80 before" if found else None)


@pytest.mark.parametrize(("chance", "found"), [(1 / 32, False), (0.032, True)])
def test_on_clips_too_a_chance_that_is_just_reached_is_chance(chance: float, found: bool) -> None:
    limits = LearnSettings(chance=chance, less_accuracy=0.0, more_false_accepts=0.0)
    assert (find_worse(_answers(60, 0, 20, 20), _answers(60, 0, 20, 15), limits) is not None) is found


def test_false_accepts_that_streams_show_better_are_not_judged_on_clips() -> None:
    before, after = _answers(60, 0, 20, 20), _answers(60, 9, 20, 20)
    assert (find_worse(before, after, DEFAULT) or "").startswith("worse_false_accepts")
    assert (
        find_worse(before, after, DEFAULT, accepts=False) == "worse_accuracy: 71 of 80 held-out clips right, 80 before"
    )


@pytest.mark.parametrize(("right", "reason"), [(2, "worse_false_accepts"), (1, "worse_accuracy")])
def test_a_model_that_detected_a_tenth_is_a_standard_for_false_accepts(right: int, reason: str) -> None:
    found = find_worse(_answers(60, 0, 20, right), _answers(60, 9, 20, right), DEFAULT)
    assert (found or "").startswith(reason)


def test_clips_that_got_better_are_taken_off_the_margin_and_do_not_add_to_it() -> None:
    """Of 100 clips twelve got wrong and three right, nine more wrong: no chance (1.8 %), but within a tenth."""
    keyword, wrong = np.zeros(100, np.bool_), np.zeros(100, np.bool_)
    before, after = wrong.copy(), wrong.copy()
    before[:3] = after[3:15] = True

    def reason(margin: float) -> str | None:
        return find_worse(
            Answers(keyword, wrong, ~before), Answers(keyword, wrong, ~after), LearnSettings(less_accuracy=margin)
        )

    assert reason(0.1) is None
    assert reason(0.08) == "worse_accuracy: 88 of 100 held-out clips right, 97 before"


def test_false_accepts_that_stay_are_no_rise() -> None:
    before, after = _heard(8), _heard(13)
    assert not accepts_more(before, after, LearnSettings(more_an_hour=5))
    assert accepts_more(before, after, LearnSettings(more_an_hour=4.9))


def test_four_seconds_or_words_and_many_in_one_second_are_chance() -> None:
    """Five that change are no chance; with one for the better of seven it is 7/64. Two of a hundred are the margin."""
    often = Heard((np.arange(60) == 0).astype(np.uint8) * 5, np.ones(KEYWORDS, np.uint8), 1.0)
    assert not accepts_more(_heard(), often, DEFAULT) and not accepts_more(_heard(), _heard(4), DEFAULT)
    assert not hears_more(_heard(hits=0), _heard(hits=4), DEFAULT)
    assert not hears_fewer(_heard(hits=KEYWORDS), _heard(hits=KEYWORDS - 4), DEFAULT)
    place, all_ = np.arange(300), np.zeros(60, np.uint8)
    many, six, seven = (Heard(all_, (place >= lost).astype(np.uint8), 1.0) for lost in (0, 6, 7))
    assert not hears_fewer(many, six, DEFAULT) and hears_fewer(many, seven, DEFAULT)
    one_won = Heard(all_, np.isin(place[:KEYWORDS], (0, 6)).astype(np.uint8), 1.0)
    assert not hears_fewer(_heard(hits=6), one_won, DEFAULT)
