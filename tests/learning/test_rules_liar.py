"""One device that lies about itself, and arrays that belong to somebody else: over every rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.learning.rule_cases import LAYERS, in_one_layer, whole_round

from auricle_learning.aggregation.bounded import TWO, BoundedRule
from auricle_learning.aggregation.caps import HALF
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.rules import Rule
from auricle_learning.methods import METHODS, RULES, get_rule

CLAIMS, LOSS = 1e7, 1e6
WEIGHTINGS = ("samples", "fedvsa")
CHOSEN = ("krum", "multi-krum", "dnc", "median", "trimmed-mean")
"""Rules that choose clients or values by distance alone: nothing that a device says of itself counts there."""
WEIGHED = [
    (name, weighting)
    for name, rule in RULES.items()
    for weighting in ([None] if "weighting" not in rule.settings else WEIGHTINGS)
    if name not in CHOSEN and not (weighting == "fedvsa" and "clip" not in rule.settings)
]


def _rule(name: str, weighting: str | None) -> Rule:
    return get_rule(name) if weighting is None else get_rule(name, weighting=weighting)


def _lying(count: int, name: str, seed: int) -> Cohort:
    """A round in which the first device says ten million clips, a loss of a million and as many steps."""
    samples, losses = np.full(count, 10.0), np.full(count, 0.5)
    samples[0], losses[0] = CLAIMS, LOSS
    weights = np.random.default_rng(seed).standard_normal((count, 12))
    steps = np.array([CLAIMS, *[5.0] * (count - 1)])
    return whole_round(count, method=name, samples=samples, losses=losses, weights=weights, extras={"steps": steps})


@pytest.mark.parametrize("count", [3, 4, 5, 6])
@pytest.mark.parametrize(("name", "weighting"), WEIGHED)
def test_one_liar_of_three_and_more_never_has_half(name: str, weighting: str | None, count: int) -> None:
    """Its share is at most three times the fair one, and from three devices on 0.49."""
    for seed in range(3):
        shares = BoundedRule(_rule(name, weighting))(_lying(count, name, seed)).share
        assert shares[0].max(initial=0.0) <= min(3 / count, HALF) * (1 + 1e-9), seed


@pytest.mark.parametrize("name", ["fedavg", "fedvsa", "geometric-median", "lpa"])
def test_of_two_devices_it_is_said_that_nothing_bounds_the_larger_one(name: str) -> None:
    assert TWO in BoundedRule(get_rule(name))(_lying(2, name, 0)).warnings


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_a_liar_that_is_far_away_gains_nothing_by_the_bound_on_the_geometric_median(count: int, weighting: str) -> None:
    """Two that agree have 0.5 each: a bound alone would give what is missing to the one a million times as far away."""
    weights = np.full((count, 4), 1.0, np.float32)
    weights[:, 1] += np.arange(count) * 1e-3
    weights[0] = -1e6
    samples = np.array([CLAIMS, *[10.0] * (count - 1)])
    cohort = in_one_layer(weights, samples=samples, losses=[LOSS, *[0.5] * (count - 1)])

    result = BoundedRule(get_rule("geometric-median", weighting=weighting))(cohort)

    assert result.share[0].max() <= HALF * (1 + 1e-9)
    assert np.linalg.norm(result.weights) <= 2 * np.linalg.norm(weights[1])


@pytest.mark.parametrize("name", ["geometric-median", "raf"])
def test_where_nobody_is_above_the_bound_the_geometric_median_keeps_its_numbers(name: str) -> None:
    cohort = whole_round(7, samples=[10.0] * 7)

    plain, bounded = get_rule(name)(cohort), BoundedRule(get_rule(name))(cohort)

    assert plain.share.max() < 3 / 7
    assert bounded.weights.tobytes() == plain.weights.tobytes()
    assert bounded.bounded == ()


def test_uniform_weights_are_no_claims_and_the_geometric_median_may_be_one_devices_model() -> None:
    cohort = in_one_layer(np.array([[0, 0], [1, 0], [-1, 0.1]], np.float32))
    rule = get_rule("geometric-median", weighting="uniform")

    assert rule(cohort).share.max() > HALF
    assert BoundedRule(rule)(cohort).weights.tobytes() == rule(cohort).weights.tobytes()


LAYOUTS = ("rows", "columns", "read-only", "read-only columns", "every second")


def _laid_out(values: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers, otherwise in memory."""
    if layout == "every second":
        wide = np.zeros((values.shape[0], 2 * values.shape[1]), values.dtype)
        wide[:, ::2] = values
        return wide[:, ::2]
    made = np.asfortranarray(values) if "columns" in layout else values.copy()
    made.flags.writeable = "read-only" not in layout
    return made


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=6, deadline=None)
@given(layout=st.sampled_from(LAYOUTS), dtype=st.sampled_from(["f4", "f8"]), count=st.integers(1, 7))
def test_how_arrays_lie_in_memory_changes_nothing_and_they_stay_as_they_are(
    name: str, layout: str, dtype: str, count: int
) -> None:
    """In columns, read-only, with gaps: the same bits as of rows, and not one of the caller's numbers is another."""
    usual = whole_round(count, dtype, method=name)
    weights = _laid_out(usual.weights, layout)
    start = usual.start.copy()
    start.flags.writeable = False
    given_now = Cohort.build(
        ids=usual.ids,
        weights=weights,
        samples=usual.samples,
        losses=usual.losses,
        start=start,
        layers=LAYERS,
        extras=usual.extras,
    )
    before = weights.tobytes()
    rule = METHODS[name].rule

    made, due = rule(given_now), rule(usual)

    assert weights.tobytes() == before
    np.testing.assert_allclose(made.weights, due.weights, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["median", "trimmed-mean", "fedavg", "geometric-median", "krum", "fedvsa", "lpa"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_model_of_one_value_is_one(name: str, layout: str) -> None:
    weights = _laid_out(np.array([[3.0], [1.0], [2.0]], np.float32), layout)
    cohort = in_one_layer(weights, losses=[0.5, 0.5, 0.5])

    value = float(get_rule(name)(cohort).weights[0])

    assert weights.ravel().tolist() == [3.0, 1.0, 2.0]
    assert 1.0 <= value <= 3.0 and math.isfinite(value)
    if name in ("median", "trimmed-mean"):
        assert value == 2.0
