"""The measurements of privacy and of secure sums: what they compute, without the recordings."""

from __future__ import annotations

import numpy as np
import pytest
from bench.membership import area, found_at
from bench.privacy_table import Fleet, multiplier_for
from bench.secure_sum import degree_of, measure

from auricle_learning.aggregation.accounting import Release, fleet_epsilon


def test_the_area_counts_pairs_in_which_the_member_scores_higher() -> None:
    assert area(np.array([3.0, 2.0]), np.array([1.0, 2.0])) == pytest.approx(3.5 / 4)
    assert area(np.array([1.0]), np.array([1.0])) == 0.5
    assert found_at(np.arange(100.0), np.zeros(20)) == 0.99


@pytest.mark.slow
def test_the_multiplier_is_the_least_that_keeps_the_epsilon() -> None:
    fleet = Fleet(1000, 100)
    multiplier = multiplier_for(fleet, 5, 4.0)
    spent = [fleet_epsilon([Release(0.1, m)] * 5, fleet.delta).epsilon for m in (multiplier - 0.01, multiplier)]
    assert spent[1] <= 4.0 < spent[0]
    assert Fleet(100_000, 1).delta == 1e-6


def test_a_small_sum_is_measured_and_a_tenth_of_it_drops_out() -> None:
    row = measure(20, 100)
    assert (row["devices"], row["neighbours"], row["plain_bytes"]) == (20, 19, 400.0)
    assert row["sent_bytes"] > 0.9 * 400
    assert [degree_of(count) for count in (3, 10, 1000)] == [14, 18, 30]
