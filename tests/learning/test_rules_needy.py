"""Rules that need more than updates: what holds for all of them, and what happens without it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.learning.rule_cases import NEEDY, PLAIN, line

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import CohortError
from auricle_learning.aggregation.extras import Extras, RuleState
from auricle_learning.aggregation.rules.rule import GIVEN, WHAT, check_needs
from auricle_learning.methods import RULES

EVERY = pytest.mark.parametrize("name", NEEDY)


@EVERY
def test_a_run_without_what_it_needs_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_needs(RULES[name], given=())

    assert f'The method "{name}" needs {WHAT[RULES[name].needs[0]]}' in str(refused.value)


def test_a_buffer_of_several_rounds_and_detection_are_refused() -> None:
    for rule in PLAIN.values():
        check_needs(rule, given=(), mode="async", detection=True)
    check_needs(RULES["fedopt"], mode="async")
    check_needs(RULES["fednova"])
    with pytest.raises(SettingsError, match='"fednova" needs synchronous rounds'):
        check_needs(RULES["fednova"], mode="async")
    with pytest.raises(SettingsError, match=r'Detection aggregates parts .* which "fedopt" cannot'):
        check_needs(RULES["fedopt"], given=GIVEN, detection=True)


def test_extras_that_do_not_fit_the_clients_are_refused() -> None:
    with pytest.raises(CohortError, match="steps has the shape"):
        line([1.0, 2.0], steps=np.ones(3))
    with pytest.raises(CohortError, match="maps has values"):
        line([1.0, 2.0], maps=np.full((2, 2), np.nan))


def test_the_state_of_another_rule_is_not_used() -> None:
    extras = Extras(state=RuleState("scaffold", {"c": np.ones(1)}))

    assert extras.kept_by("feddyn").arrays == {}
    assert extras.kept_by("scaffold").array("c", 1).tolist() == [1.0]
