"""What noise gives away: against the analytic Gaussian mechanism, and as rounds, noise and sampling change."""

from __future__ import annotations

import math

import pytest

from auricle_learning.aggregation.accounting import Release, device_epsilon, fleet_epsilon

pytestmark = pytest.mark.slow
DELTA = 1e-5


def test_a_single_gaussian_is_that_of_the_analytic_mechanism_and_renyis_bound_lies_above_it() -> None:
    assert device_epsilon([1.0], DELTA) == pytest.approx(4.377178, rel=1e-5)
    assert 4.377178 < fleet_epsilon([Release(1.0, 1.0)], DELTA) < 1.2 * 4.377178


def test_rounds_of_one_device_compose_to_a_gaussian_of_less_noise() -> None:
    assert device_epsilon([2.0] * 4, DELTA) == pytest.approx(device_epsilon([1.0], DELTA), rel=1e-6)
    assert device_epsilon([3.0, 4.0], DELTA) == pytest.approx(device_epsilon([2.4], DELTA), rel=1e-6)


def test_more_rounds_cost_more_and_sampling_or_noise_less() -> None:
    once = fleet_epsilon([Release(0.1, 1.0)], DELTA)
    assert fleet_epsilon([Release(0.1, 1.0)] * 10, DELTA) > once
    assert fleet_epsilon([Release(0.01, 1.0)], DELTA) < once < fleet_epsilon([Release(1.0, 1.0)], DELTA)
    assert fleet_epsilon([Release(0.1, 2.0)], DELTA) < once
    assert fleet_epsilon([Release(0.1, 1.0099)], DELTA) == once


def test_without_noise_nothing_is_promised_and_without_rounds_nothing_was_given_away() -> None:
    assert fleet_epsilon([], DELTA) == device_epsilon([], DELTA) == 0.0
    assert math.isinf(fleet_epsilon([Release(0.5, 1.0), Release(0.5, 0.0)], DELTA))
    assert math.isinf(device_epsilon([1.0, 0.0], DELTA))


def test_the_known_figure_of_federated_averaging_with_noise() -> None:
    # 1,000 rounds of 1 % with multiplier 1, delta 1e-5: about 2.1 by Renyi's accounting (DP-SGD's textbook example).
    assert fleet_epsilon([Release(0.01, 1.0)] * 1000, DELTA) == pytest.approx(2.1, abs=0.25)
