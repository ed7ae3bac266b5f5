"""The threshold of a wake word: the tail of its false accepts, and on whose sound it is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.hearing.curve import GRID, Counts
from auricle.hearing.sounds import Take
from auricle.hearing.word_thresholds import LEAST
from auricle_export.pretrain.corpus import Heard
from auricle_export.wakeword.threshold import MOST, choosing_sound, tail_thresholds

LOG_ODDS = np.log(GRID / (1 - GRID))


def counts(accepts: np.ndarray, hours: float) -> Counts:
    """Nothing is said; so many false accepts of "hey" at each threshold."""
    none = np.zeros((len(GRID), 0))
    accepts = accepts.astype(np.int64)[:, None]
    return Counts(("hey",), GRID[:, None], (), none.astype(bool), none, {"words": accepts}, {"words": hours})


def by_tail(scale: float, number: float) -> np.ndarray:
    """An exponential tail: `number` false accepts over log odds 0, e times fewer with each `scale`."""
    return np.round(number * np.exp(-np.maximum(LOG_ODDS, 0) / scale))


@pytest.mark.parametrize(("scale", "number", "hours"), [(0.5, 400, 10.0), (1.0, 40, 5.0), (0.3, 1000, 2.0)])
def test_the_threshold_is_where_the_tail_reaches_the_rate(scale: float, number: float, hours: float) -> None:
    """Of n over log odds 0 that fall by e with each s, r an hour are left at s ln(n / (r h))."""
    threshold = tail_thresholds(counts(by_tail(scale, number), hours), 0.5)["hey"]
    expected = scale * np.log(number / (0.5 * hours))
    assert np.log(threshold / (1 - threshold)) == pytest.approx(expected, abs=0.25 * scale)


@pytest.mark.parametrize("rate", [2.0, 5.0, 20.0])
def test_where_more_are_allowed_than_the_tail_has_they_are_all_used(rate: float) -> None:
    """In ten hours 20 an hour are 200 false accepts: a threshold over which only ten are would be far too strict."""
    accepts = by_tail(0.5, 400)
    threshold = tail_thresholds(counts(accepts, 10.0), rate)["hey"]
    over = accepts[int(np.argmax(threshold - 1e-9 <= GRID))]
    assert 0.75 * 10 * rate <= over <= 10 * rate


def test_one_recording_that_sounds_like_the_phrase_moves_it_little() -> None:
    plain = by_tail(0.5, 400)
    worst = np.maximum(plain, LOG_ODDS[-1] > LOG_ODDS)  # one false accept at every threshold but the last
    before, after = (tail_thresholds(counts(each, 10.0), 0.05)["hey"] for each in (plain, worst))
    assert before < after < 0.9995


def test_what_nothing_is_mistaken_for_has_the_least_threshold() -> None:
    assert tail_thresholds(counts(np.zeros(len(GRID)), 1.0), 0.5)["hey"] == pytest.approx(LEAST, abs=0.01)


def test_what_everything_is_mistaken_for_has_the_highest() -> None:
    assert tail_thresholds(counts(np.full(len(GRID), 5000), 1.0), 0.5) == {"hey": MOST}


def _heard(seconds: float, *, running: bool = True) -> Heard:
    sound = np.zeros(round(16_000 * seconds), np.float32)
    return Heard((), (Take("dog", "anna", sound),), (sound,) if running else (), (sound[:1600],), ())


def test_people_choose_alone_where_there_are_five_minutes_of_them() -> None:
    voices = _heard(10)
    few, many, words = _heard(140), _heard(160), _heard(700, running=False)
    assert choosing_sound(voices, few) == (voices, False)
    assert choosing_sound(voices, words) == (voices, False)
    people, alone = choosing_sound(voices, many)
    assert alone and people.others == many.others and people.noise == voices.noise
