"""The exact comparison of two rates, by hand, by another library's figures, and against one device that shouts."""

from __future__ import annotations

import math

import pytest

from auricle_cloud.states.hearing_comparison import Heard, compare, rate_of, tail


@pytest.mark.parametrize(
    ("least", "trials", "share", "expected"),
    [
        (3, 3, 0.5, 1 / 8),
        (2, 3, 0.5, 4 / 8),
        (1, 2, 0.25, 7 / 16),
        (2, 2, 0.25, 1 / 16),
        (0, 5, 0.3, 1.0),
        (3, 2, 0.5, 0.0),
        (1, 4, 0.0, 0.0),
        (4, 4, 1.0, 1.0),
    ],
)
def test_the_tail_of_a_binomial_by_hand(least: int, trials: int, share: float, expected: float) -> None:
    assert tail(least, trials, share) == pytest.approx(expected)


def test_the_tail_is_the_exact_sum_of_whole_numbers_for_many_trials() -> None:
    trials = 400
    exact = sum(math.comb(trials, k) for k in range(230, trials + 1)) / 2**trials

    assert tail(230, trials, 0.5) == pytest.approx(exact, rel=1e-9)


def test_seven_complaints_after_none_in_the_same_time_are_no_chance_and_six_are_not_enough() -> None:
    """P = 1 / 2^7 = 0.0078 and 1 / 2^6 = 0.0156, against 0.01."""
    quiet = [Heard("dev-a", 0, 24.0)]

    assert compare([Heard("dev-a", 7, 24.0)], quiet).is_worse
    assert compare([Heard("dev-a", 7, 24.0)], quiet).probability == pytest.approx(1 / 128)
    assert not compare([Heard("dev-a", 6, 24.0)], quiet).is_worse


def test_the_same_rate_over_more_time_is_not_worse() -> None:
    compared = compare([Heard("dev-a", 40, 40.0)], [Heard("dev-b", 10, 10.0)])

    assert not compared.is_worse
    assert compared.after.an_hour == compared.before.an_hour == 1.0
    assert (compared.lacks(10.0), compared.lacks(10.25)) == (False, True)


def test_a_lower_rate_is_never_worse() -> None:
    assert not compare([Heard("dev-a", 0, 40.0)], [Heard("dev-a", 90, 10.0)]).is_worse


def test_nothing_is_worse_than_what_nobody_has_measured() -> None:
    assert not compare([Heard("dev-a", 400, 40.0)], []).is_worse
    assert not compare([], [Heard("dev-a", 4, 40.0)]).is_worse
    assert compare([], []).after.an_hour == 0.0


def test_of_several_devices_one_alone_cannot_make_a_rate_look_worse() -> None:
    before = [Heard(name, 2, 24.0) for name in ("dev-a", "dev-b", "dev-c")]
    calm = [Heard("dev-a", 2, 24.0), Heard("dev-b", 2, 24.0)]

    shouting = compare([*calm, Heard("dev-c", 480, 24.0)], before)
    assert shouting.probability < 1e-9
    assert not shouting.is_worse
    assert compare([Heard(each.device, each.complaints + 18, 24.0) for each in before], before).is_worse


def test_a_rate_in_words() -> None:
    assert str(rate_of([Heard("dev-a", 6, 4.0), Heard("dev-b", 3, 2.0)])) == "1.5 an hour (9 in 6 h of 2 devices)"
    assert str(rate_of([Heard("dev-a", 0, 4.0), Heard("dev-b", 9, 0.0)])) == "0 an hour (0 in 4 h of 1 device)"
