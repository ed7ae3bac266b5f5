"""Hits, false accepts and what is read off the curve, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.core.hearing.by_hand import peaks_of, spoken

from auricle.errors import DataError
from auricle.hearing.curve import Counts, curve_of, interpolate, points
from auricle.hearing.rule import Rule
from auricle.hearing.scenes import Scene, Spoken, Stretch
from auricle.hearing.word_thresholds import WordThresholds, threshold_for, thresholds_for

LABELS = ("yes", "no", "_unknown_")
HOP = 1_600
PLAIN = Rule(0.1, 1, 1, 0.0)
"""Every window stands for itself."""
FALLING = [[True, True], [True, False], [False, False]]
BOTH = {"yes": FALLING, "no": FALLING}


def peaks(hops: int, at: dict[int, tuple[str, float]]) -> np.ndarray:
    return peaks_of(LABELS, hops, at)


def empty(seconds: float, *words: Spoken) -> Scene:
    return Scene(np.zeros(round(seconds * 16_000), np.int16), words)


def test_a_hit_is_the_right_word_from_its_start_to_a_second_after_its_end() -> None:
    """`yes` from 1.0 to 1.5 s: row h is decided at (h + 1) / 10 s, so rows 9 to 24 count, 8 and 25 do not."""
    scene = empty(4, spoken("yes", 1.0, 1.5))
    for hop, hit in ((8, False), (9, True), (24, True), (25, False)):
        counts = curve_of([peaks(40, {hop: ("yes", 0.9)})], [scene], LABELS, PLAIN, np.array([0.5, 0.95]))
        assert counts.hit.tolist() == [[hit], [False]]
        assert counts.wrong["noise"].tolist() == [int(not hit), 0]
    assert curve_of([peaks(40, {20: ("no", 0.9)})], [scene], LABELS, PLAIN, np.array([0.5])).hit.tolist() == [[False]]


def test_each_detection_is_used_once_and_delays_count_from_the_words_end() -> None:
    """Two words, one detection at 1.8 s: the first word has it, 0.3 s after its end."""
    scene = empty(4, spoken("yes", 1.0, 1.5), spoken("yes", 1.6, 1.7))
    one = curve_of([peaks(40, {17: ("yes", 0.9)})], [scene], LABELS, PLAIN, np.array([0.5]))
    assert one.hit.tolist() == [[True, False]]
    assert one.delay[0, 0] == pytest.approx(0.3)
    two = curve_of([peaks(40, {17: ("yes", 0.9), 19: ("yes", 0.6)})], [scene], LABELS, PLAIN, np.array([0.5, 0.8]))
    assert two.hit.tolist() == [[True, True], [True, False]]
    assert two.delay[0].tolist() == pytest.approx([0.3, 0.3])


def test_every_detection_where_nobody_spoke_is_a_false_accept_of_its_kind_and_word() -> None:
    stretches = (Stretch("speech", 0, 2 * 16_000), Stretch("noise", 2 * 16_000, 4 * 16_000))
    scene = Scene(np.zeros(4 * 16_000, np.int16), (), stretches)
    rows = peaks(40, {5: ("yes", 0.6), 8: ("no", 0.9), 19: ("yes", 0.7)})
    counts = curve_of([rows], [scene], LABELS, PLAIN, np.array([0.5, 0.65]))
    assert counts.false_accepts["speech"].tolist() == [[1, 1, 0], [0, 1, 0]]
    assert counts.false_accepts["noise"].tolist() == [[1, 0, 0], [1, 0, 0]]
    assert counts.total().tolist() == [3, 2] and counts.total("yes").tolist() == [2, 1]
    assert counts.hours == {"speech": 2 / 3600, "noise": 2 / 3600} and counts.all_hours == pytest.approx(4 / 3600)


def test_the_share_at_a_rate_lies_on_the_line_between_two_thresholds() -> None:
    """In 2 h: 8, 2 and no false accepts with 90, 60 and 40 %: 4, 1 and 0 an hour."""
    accepts, shares = np.array([8, 2, 0]), np.array([0.9, 0.6, 0.4])
    at = [interpolate(accepts, shares, 2.0, rate) for rate in (0.0, 0.5, 1.0, 2.5, 4.0, 20.0)]
    assert at == pytest.approx([0.4, 0.5, 0.6, 0.75, 0.9, 0.9])


def test_where_even_the_highest_threshold_accepts_too_often_part_of_the_time_is_what_is_left() -> None:
    assert interpolate(np.array([10]), np.array([0.8]), 1.0, 5.0) == pytest.approx(0.4)


def test_more_false_accepts_never_mean_fewer_hits() -> None:
    """The second threshold is the worse one in both: it does not pull the curve down."""
    accepts, shares = np.array([6, 5, 1]), np.array([0.9, 0.3, 0.5])
    assert interpolate(accepts, shares, 1.0, 5.0) == pytest.approx(0.5)


def counted(hits: dict[str, list[list[bool]]], accepts: dict[str, list[int]], hours: float) -> Counts:
    """Thresholds 0.4, 0.6, 0.8: for each word, hits of each of its utterances and false accepts."""
    thresholds = np.repeat(np.array([[0.4], [0.6], [0.8]]), 3, axis=1)
    words = tuple(spoken(word, 1, 2) for word, rows in hits.items() for _ in rows[0])
    table = np.concatenate([np.array(rows) for rows in hits.values()], axis=1)
    false = np.array([[accepts.get(label, [0] * 3)[row] for label in LABELS] for row in range(3)])
    return Counts(LABELS, thresholds, words, table, np.zeros(table.shape, np.float32), {"all": false}, {"all": hours})


def test_points_say_whether_there_are_hours_enough_to_show_the_rate() -> None:
    """3 h show a rate of 1 an hour, not of 0.5."""
    counts = counted({"yes": FALLING}, {"yes": [6, 3, 0], "no": [12, 0, 0]}, 3.0)
    made = points(counts, rates=(0.5, 1.0, 6.0))
    assert [p.share for p in made] == pytest.approx([0.25, 0.5, 1.0])
    assert [p.shown for p in made] == [False, True, True]
    assert made[2].words == 2 and made[2].interval.high == 1.0
    alone = points(counts, rates=(2.0,), alone="yes")
    assert alone[0].share == pytest.approx(1.0)
    with pytest.raises(DataError, match="needs scenes with keywords"):
        points(counts, counts.chosen(word="no"))


def test_thresholds_go_down_where_it_hears_most_for_a_false_accept() -> None:
    """4 in 1 h: `no` gains half its words for 1, then the rest for 1 more; `yes` would want 4 for its half."""
    counts = counted(BOTH, {"yes": [8, 4, 0], "no": [2, 1, 0]}, 1.0)
    chosen = thresholds_for(counts, 4.0)
    assert chosen.thresholds == {"yes": 0.8, "no": 0.4}
    assert chosen.false_accepts == {"yes": 0, "no": 2} and chosen.rate == 2
    assert chosen.hits == {"yes": 0.0, "no": 1.0}
    assert thresholds_for(counts, 6.0).thresholds == {"yes": 0.6, "no": 0.4}
    assert thresholds_for(counts, 100.0).thresholds == {"yes": 0.4, "no": 0.4}
    assert thresholds_for(counts, 6.0, least=0.5).thresholds == {"yes": 0.6, "no": 0.6}


def test_words_that_were_never_spoken_share_what_is_allowed() -> None:
    """8 and 4 of `yes`, 2 and 1 of `no`: with 5 an hour each goes one step before either goes two."""
    counts = counted({"yes": [[], [], []]}, {"yes": [4, 2, 0], "no": [4, 2, 0]}, 1.0)
    assert thresholds_for(counts, 4.0).thresholds == {"yes": 0.6, "no": 0.6}


def test_one_threshold_is_the_lowest_at_which_all_words_together_keep_to_the_rate() -> None:
    """Nothing is mistaken for `no`, which gains it nothing: 4 an hour of `yes` are allowed at 0.6, 8 at 0.4."""
    counts = counted(BOTH, {"yes": [8, 4, 0], "no": [0, 0, 0]}, 1.0)
    chosen = threshold_for(counts, 4.0)
    assert chosen.thresholds == {"yes": 0.6, "no": 0.6}
    assert chosen.false_accepts == {"yes": 4, "no": 0} and chosen.hits == {"yes": 0.5, "no": 0.5}
    assert threshold_for(counts, 3.0).thresholds == {"yes": 0.8, "no": 0.8}
    assert threshold_for(counts, 100.0, least=0.5).thresholds == {"yes": 0.6, "no": 0.6}
    assert threshold_for(counted(BOTH, {"yes": [8, 4, 2]}, 1.0), 1.0).thresholds["yes"] == 0.8, "the highest at worst"


@pytest.mark.parametrize("choose", [thresholds_for, threshold_for])
def test_too_little_sound_for_the_rate_is_refused(choose: Callable[[Counts, float], WordThresholds]) -> None:
    counts = counted({"yes": [[True], [True], [True]]}, {}, 0.5)
    with pytest.raises(DataError, match="30 minutes without keywords cannot show 1 an hour: it takes 60 minutes"):
        choose(counts, 1.0)


def test_posteriors_belong_to_scenes() -> None:
    with pytest.raises(DataError, match="posteriors of 0 scenes and 1 scenes"):
        curve_of([], [empty(1)], LABELS, PLAIN)
