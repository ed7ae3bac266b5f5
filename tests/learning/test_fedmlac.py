"""FedMLAC as a method: its halves are mutual learning and LPA, each of which can be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import line, whole_round

from auricle.wire.plan import Plan
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.methods import METHODS, get_rule

PRUNED = {"prune_low": 0.2, "prune_high": 0.3}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("options", "other"),
    [(PRUNED, ("lpa", PRUNED)), ({}, ("lpa", {})), ({"lpa": False, **PRUNED}, ("fedavg", {}))],
)
def test_it_is_lpa_and_without_it_fedavg_to_the_last_bit(
    options: Any, other: tuple[str, Any], dtype: Any, count: int
) -> None:
    cohort, rules = whole_round(count, dtype), (get_rule("fedmlac", **options), get_rule(other[0], **other[1]))
    ours, theirs = (rule(cohort) for rule in rules)
    held, too = (BoundedRule(rule)(cohort) for rule in rules)

    for mine, wanted in ((ours, theirs), (held, too)):
        assert mine.weights.tobytes() == wanted.weights.tobytes()
        assert mine.explain() == wanted.explain()
        assert (mine.warnings, mine.bounded) == (wanted.warnings, wanted.bounded)


def test_pruning_by_hand() -> None:
    """The mean is 2.5: 2 is nearest, by its id before 3, 6 is furthest; 0, 3, 1.5 of 1, 3, 0 samples remain."""
    cohort = line([0.0, 2.0, 3.0, 6.0, 1.5], samples=[1, 7, 3, 9, 0])

    assert get_rule("fedmlac", prune_low=0.2, prune_high=0.2)(cohort).weights.tolist() == [(0 + 9) / 4]
    assert get_rule("fedmlac", lpa=False)(cohort).weights[0] == pytest.approx((0 + 14 + 9 + 54) / 20)


def test_devices_learn_mutually_with_its_alpha_or_by_labels_alone() -> None:
    given = Plan(mode="supervised", alpha=0.25, rate=0.125)

    both = METHODS["fedmlac"].rule_for_rounds.plan_for(given)
    alone = get_rule("fedmlac", mutual=False, alpha=0.75).plan_for(Plan(alpha=0.25))

    assert (both.mode, both.alpha, both.rate, both.method) == ("mutual", 0.5, 0.125, "")
    assert (alone.mode, alone.alpha) == ("supervised", 0.25)
    assert get_rule("fedmlac", alpha=1.0).plan_for(given).alpha == 1.0
