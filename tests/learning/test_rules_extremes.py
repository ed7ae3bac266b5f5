"""Updates of nothing, of denormal numbers and of the largest ones: what every rule makes of them is finite."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.learning.rule_cases import SIZE, bowl_around, in_one_layer, whole_round
from tests.learning.test_every_method import EVERY

from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.extras import Extras
from auricle_learning.methods import get_rule

DENORMAL, LARGEST = 1e-45, 3e38
MOVES = (0.0, DENORMAL, 1e-30, 1e6, LARGEST)


def moved(name: str, by: float, who: slice) -> Cohort:
    """A round from a model of zeros in which some of seven clients moved by `by` in every value, up or down."""
    usual = whole_round(method=name)
    rows = (usual.weights - usual.start).astype(np.float32)
    signs = np.where(np.random.default_rng(1).random(rows.shape) < 0.5, -1.0, 1.0)
    rows[who] = (by * signs)[who]
    return replace(usual, weights=rows, start=np.zeros(SIZE, np.float32))


def is_finite(made: Aggregate) -> bool:
    states = () if made.state is None else tuple(made.state.arrays.values())
    models = () if made.clusters is None or made.clusters.models is None else (made.clusters.models,)
    return all(np.isfinite(values).all() for values in (made.weights, made.share, *states, *models))


@EVERY
def test_updates_of_nothing_denormal_and_huge_ones_make_a_finite_model(name: str, options: dict[str, object]) -> None:
    """Of one client, of all others, or of all."""
    rule = BoundedRule(get_rule(name, **options))
    with np.errstate(all="ignore"):
        for by in MOVES:
            for who in (slice(0, 1), slice(1, None), slice(None)):
                assert is_finite(rule(moved(name, by, who))), (by, who)


@pytest.mark.parametrize("name", ["fedrpo", "zeno"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_update_that_has_no_direction_counts_for_nothing(name: str, dtype: type) -> None:
    """Of float64 even the square of such a length is 0; a unit vector of it would be another device's rounding."""
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [DENORMAL, 0.0], [1e-13, 0.0]], dtype)
    extras = Extras(rate=0.1, objectives=(bowl_around(np.array([1.0, 1.0])),))
    given = in_one_layer(rows, losses=[0.5] * 4, extras=extras)

    made = get_rule(name)(given)

    assert not made.share[2:].any() and np.isfinite(made.weights).all()
    assert made.score is not None and np.isfinite(made.score).all()


def test_fedrpo_of_denormal_updates_alone_goes_the_coordinators_way() -> None:
    made = get_rule("fedrpo")(moved("fedrpo", DENORMAL, slice(None)))

    assert not made.share.any()
    assert math.isfinite(float(np.linalg.norm(made.weights))) and made.weights.any()
