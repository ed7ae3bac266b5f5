"""The alarm of eq. 12: counted by hand, and its false alarms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle_cloud.detection.alarm import alarm, false_alarm, next_reference, reference_of


def _losses(*values: float) -> dict[str, float]:
    return {f"k{place}": value for place, value in enumerate(values)}


def test_half_of_the_cohort_above_the_worst_loss_of_the_round_before_is_enough() -> None:
    verdict = alarm(_losses(2.5, 1.0, 2.1, 0.5), 2.0)
    assert verdict.fires and "2 of 4" in verdict.sentence
    assert (verdict.votes, verdict.cohort, verdict.voted) == (2, 4, ("k0", "k2"))


def test_less_than_half_is_not_enough_and_a_loss_equal_to_the_reference_is_no_vote() -> None:
    verdict = alarm(_losses(2.5, 1.0, 2.0, 0.5), 2.0)
    assert not verdict.fires and "No alarm: 1 of 4" in verdict.sentence
    assert not alarm(_losses(2.5, 2.5, 1.0, 1.0, 1.0), 2.0).fires
    assert alarm(_losses(2.5, 2.5, 2.5, 1.0, 1.0), 2.0).fires


def test_a_loss_that_is_no_number_or_infinite_is_a_vote() -> None:
    verdict = alarm(_losses(math.nan, 1.0, math.inf, -math.inf, 1.0, 1.0), 2.0)
    assert verdict.voted == ("k0", "k2", "k3")
    assert verdict.fires


@pytest.mark.parametrize("reference", [None, math.nan, math.inf])
def test_without_a_round_before_or_anybody_there_is_no_alarm(reference: float | None) -> None:
    verdict, nobody = alarm(_losses(100.0, math.nan), reference), alarm({}, 2.0)
    assert (verdict.fires, verdict.votes, verdict.reference, verdict.warning) == (False, 0, None, None)
    assert (nobody.fires, nobody.votes, nobody.false_alarm) == (False, 0, 0.0)
    assert "clean round" in verdict.sentence and "No client" in nobody.sentence


def test_the_reference_is_the_largest_finite_loss_as_it_was_reported() -> None:
    assert reference_of(_losses(1.0, 7.25, math.nan, math.inf)) == 7.25
    assert reference_of(_losses(math.nan, math.inf)) is None
    assert reference_of({}) is None


def test_after_an_alarm_the_last_clean_maximum_is_kept() -> None:
    reference: float | None = None
    kept = []
    for losses in (_losses(2.0, 1.5), _losses(1.8, 1.2), _losses(9.0, 8.0), {}, _losses(1.7, 1.1)):
        fired = alarm(losses, reference).fires
        reference = next_reference(reference, losses, fired)
        kept.append(reference)
    assert kept == [2.0, 1.8, 1.8, 1.8, 1.7]


@pytest.mark.parametrize(
    ("clients", "expected"),
    [(2, 0.50), (3, 0.20), (4, 3 / 14), (5, 1 / 12), (10, 0.016254), (20, 2.18e-4), (30, 2.916e-6)],
)
def test_the_false_alarm_is_the_known_one_for_exchangeable_losses(clients: int, expected: float) -> None:
    assert false_alarm(clients) == pytest.approx(expected, rel=0.01)


def test_the_false_alarm_is_what_random_losses_show() -> None:
    rng = np.random.default_rng(1)
    for clients, previous in ((3, 3), (4, 6), (5, 2)):
        draws = rng.random((20_000, clients + previous))
        votes = (draws[:, :clients] > draws[:, clients:].max(axis=1, keepdims=True)).sum(axis=1)
        assert false_alarm(clients, previous) == pytest.approx(np.mean(2 * votes >= clients), abs=0.015)


def test_a_small_cohort_is_warned_about() -> None:
    warning = alarm(_losses(1.0, 1.0, 1.0, 1.0, 1.0), 2.0).warning
    assert "5 clients" in warning and "8.3 %" in warning
    assert alarm(_losses(*[1.0] * 10), 2.0).warning is None


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=12), st.floats(-10, 10))
def test_the_verdict_does_not_depend_on_the_order_of_the_losses(values: list[float], reference: float) -> None:
    losses = _losses(*values)
    backwards = dict(reversed(losses.items()))
    found, again = alarm(losses, reference), alarm(backwards, reference)
    assert found == again
    assert found.fires is (2 * sum(not value <= reference or value == -math.inf for value in values) >= len(values))
