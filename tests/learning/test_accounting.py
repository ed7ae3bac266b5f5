"""What noise gives away: against the analytic Gaussian mechanism, and as rounds, noise and sampling change."""

from __future__ import annotations

import math

import pytest

from auricle_learning.aggregation.accounting import LARGEST_OF_PLD, Release, device_epsilon, epsilon_by, fleet_epsilon

pytestmark = pytest.mark.slow
DELTA = 1e-5


def epsilon(releases: list[Release]) -> float:
    return fleet_epsilon(releases, DELTA).epsilon


def test_a_single_gaussian_is_that_of_the_analytic_mechanism_and_pld_finds_it_where_renyis_bound_lies_above() -> None:
    assert device_epsilon([1.0], DELTA) == pytest.approx(4.377178, rel=1e-5)
    assert epsilon([Release(1.0, 1.0)]) == pytest.approx(4.377178, rel=1e-3)
    assert epsilon([Release(1.0, 1.0)]) >= 4.377178


def test_distributions_are_composed_up_to_an_epsilon_from_where_they_would_take_gigabytes() -> None:
    assert fleet_epsilon([Release(1.0, 1.0)], DELTA).accounting == "PLD"
    assert fleet_epsilon([Release(1.0, 0.2)] * 2, DELTA).accounting == "PLD"
    much = fleet_epsilon([Release(1.0, 0.01)], DELTA)
    assert much.accounting == "RDP" and much.epsilon > LARGEST_OF_PLD


def test_pld_allows_more_rounds_of_an_epsilon_than_renyis_accounting() -> None:
    often = {Release(0.1, 1.0): 117}
    assert epsilon_by("PLD", often, DELTA) <= 8 < epsilon_by("RDP", often, DELTA)
    assert fleet_epsilon([Release(0.1, 1.0)] * 117, DELTA) == (epsilon_by("PLD", often, DELTA), "PLD")


def test_rounds_of_one_device_compose_to_a_gaussian_of_less_noise() -> None:
    assert device_epsilon([2.0] * 4, DELTA) == pytest.approx(device_epsilon([1.0], DELTA), rel=1e-6)
    assert device_epsilon([3.0, 4.0], DELTA) == pytest.approx(device_epsilon([2.4], DELTA), rel=1e-6)


def test_more_rounds_cost_more_and_sampling_or_noise_less() -> None:
    once = epsilon([Release(0.1, 1.0)])
    assert epsilon([Release(0.1, 1.0)] * 10) > once
    assert epsilon([Release(0.01, 1.0)]) < once < epsilon([Release(1.0, 1.0)])
    assert epsilon([Release(0.1, 2.0)]) < once
    assert epsilon([Release(0.1, 1.0099)]) == once


def test_without_noise_nothing_is_promised_and_without_rounds_nothing_was_given_away() -> None:
    assert epsilon([]) == device_epsilon([], DELTA) == 0.0
    assert math.isinf(epsilon([Release(0.5, 1.0), Release(0.5, 0.0)]))
    assert math.isinf(device_epsilon([1.0, 0.0], DELTA))


def test_the_known_figure_of_federated_averaging_with_noise() -> None:
    # 1,000 rounds of 1 % with multiplier 1, delta 1e-5 (DP-SGD's textbook example): 2.1 by Renyi's accounting.
    assert epsilon([Release(0.01, 1.0)] * 1000) == pytest.approx(1.829, abs=0.005)
