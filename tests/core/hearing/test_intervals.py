"""Intervals against values from tables."""

from __future__ import annotations

import math

import pytest

from auricle.errors import DataError
from auricle.hearing.intervals import count_interval, rate_interval, share_interval


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        *((8, 10, 0.4439045, 0.9747893), (0, 20, 0.0, 0.1684335), (20, 20, 0.8315665, 1.0)),
        *((1, 2, 0.0125791, 0.9874209), (50, 100, 0.3983211, 0.6016789), (0, 0, 0.0, 1.0)),
    ],
)
def test_shares_are_those_of_clopper_and_pearson(hits: int, of: int, low: float, high: float) -> None:
    """qbeta(0.025, k, n - k + 1) and qbeta(0.975, k + 1, n - k); with no hit 1 - 0.025 ** (1 / 20)."""
    found = share_interval(hits, of)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-7)


@pytest.mark.parametrize(
    ("events", "low", "high"), [(1, 0.0253178, 5.5716434), (5, 1.6234864, 11.6683321), (100, 81.3639913, 121.6267938)]
)
def test_counts_are_those_of_garwood(events: int, low: float, high: float) -> None:
    """Half the chi-squared quantiles: qchisq(0.025, 2 k) / 2 and qchisq(0.975, 2 k + 2) / 2."""
    found = count_interval(events)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)


def test_no_event_in_t_hours_shows_a_rate_under_three_over_t() -> None:
    assert rate_interval(0, 6.0).high == pytest.approx(-math.log(0.05) / 6)
    assert rate_interval(0, 6.0).high < 0.5 < rate_interval(0, 5.9).high
    assert rate_interval(0, 0.0).high == math.inf


def test_thousands_of_words_do_not_overflow() -> None:
    found = share_interval(9_000, 10_000)
    assert found.low == pytest.approx(0.894, abs=1e-3) and found.high == pytest.approx(0.906, abs=1e-3)


def test_what_is_not_a_count_is_refused() -> None:
    with pytest.raises(DataError, match="3 of 2 is not a share"):
        share_interval(3, 2)
    with pytest.raises(DataError, match="-1 is not a number of events"):
        count_interval(-1)
