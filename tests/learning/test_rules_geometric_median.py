"""The geometric median against a plain reading: measured by pairs with few clients, directly with many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import in_one_layer

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.rules.geometric_median import FEW
from auricle_learning.methods import get_rule

STEPS = 5


def cohort_of(weights: Any, samples: Any) -> Cohort:
    """One client a row, all in one layer, from a model of zeros."""
    return in_one_layer(weights, samples=samples, ids=[f"{k:03}" for k in range(len(weights))])


def plain(weights: Any, start: Any, nu: float) -> tuple[Any, Any]:
    """Take the steps as they are written, in float64: the point and all distances from it."""
    values, share = weights.astype(np.float64), start
    for _ in range(STEPS):
        distances = np.linalg.norm(values - share @ values, axis=1)
        share = start / np.maximum(nu, distances)
        share = share / share.sum()
    return share @ values, np.linalg.norm(values - share @ values, axis=1)


@pytest.mark.parametrize("clients", [60, FEW, FEW + 1])
@pytest.mark.parametrize("spread", ["one cloud", "an attacker at 1e6", "an attacker at 1e38", "one at the median"])
def test_the_steps_are_those_of_the_paper(clients: int, spread: str) -> None:
    rng = np.random.default_rng(clients)
    weights = rng.standard_normal((clients, 1500)).astype(np.float32)
    if spread.startswith("an attacker"):
        weights[3] = float(spread.split()[-1])
    elif spread == "one at the median":
        weights[3] = plain(weights, np.full(clients, 1 / clients), 1e-6)[0]
    samples = rng.integers(1, 90, clients)
    result = get_rule("geometric-median", ftol=0.0, iterations=STEPS)(cohort_of(weights, samples))

    point, distances = plain(weights, samples / samples.sum(), 1e-6)
    np.testing.assert_allclose(result.weights, point, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(result.score, distances, rtol=1e-9)


@pytest.mark.parametrize(("iterations", "settled"), [(100, True), (1, False)])
def test_steps_end_when_the_point_is_still_and_it_is_said_when_they_ran_out(iterations: int, settled: bool) -> None:
    corners = np.array([[0, 0], [4, 0], [1, 3]], np.float64)

    result = get_rule("geometric-median", iterations=iterations)(cohort_of(corners, np.ones(3)))

    assert result.warnings == (() if settled else ("the geometric median was still moving after 1 steps.",))
    with pytest.raises(SettingsError, match="iterations is None"):
        get_rule("geometric-median", iterations=None)
