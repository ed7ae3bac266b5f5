"""Rules that need more than updates: what holds for all of them, and what happens without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import NEEDY, PLAIN, line, whole_round

from auricle.errors import DataError, SettingsError
from auricle_learning.aggregation.cohort import NO_UPDATE, CohortError
from auricle_learning.aggregation.extras import Extras, RuleState
from auricle_learning.aggregation.needs import GIVEN, WHAT, check_needs
from auricle_learning.methods import RULES, get_rule

EVERY = pytest.mark.parametrize("name", NEEDY)


def state_of(aggregate: Any) -> Any:
    return None if aggregate.state is None else aggregate.state.to_bytes()


@EVERY
def test_the_order_of_arrival_changes_no_byte(name: str) -> None:
    ours, theirs = RULES[name](whole_round(7)), RULES[name](whole_round(7, order=[3, 0, 6, 1, 5, 2, 4]))

    assert ours.weights.tobytes() == theirs.weights.tobytes()
    assert ours.explain() == theirs.explain()
    assert state_of(ours) == state_of(theirs)


@EVERY
def test_float32_is_float64_within_a_ten_thousandth(name: str) -> None:
    narrow, wide = RULES[name](whole_round()), RULES[name](whole_round(dtype=np.float64))

    assert narrow.weights.dtype == np.float32
    np.testing.assert_allclose(narrow.weights, wide.weights, rtol=1e-4, atol=1e-6)
    assert narrow.kept.tolist() == wide.kept.tolist()


@EVERY
def test_pytorch_computes_the_same(name: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from auricle_learning.aggregation.compute.matrix_torch import TorchMatrix

    ours = RULES[name](whole_round())
    theirs = RULES[name](whole_round(opener=lambda weights: TorchMatrix(weights, device="cpu")))

    np.testing.assert_allclose(theirs.weights, ours.weights, rtol=1e-6, atol=1e-7)
    assert theirs.kept.tolist() == ours.kept.tolist()


@EVERY
def test_nobody_left_keeps_model_and_state(name: str) -> None:
    kept = RuleState(name, {"m": np.ones(12)}, 4)
    empty = whole_round(0, extras={"state": kept})

    result = RULES[name](empty)

    assert result.weights.tobytes() == empty.start.tobytes()
    assert result.flag == NO_UPDATE
    assert result.state is (kept if "server-state" in RULES[name].needs else None)


@EVERY
def test_a_client_with_nan_is_as_if_it_had_not_come(name: str) -> None:
    cohort = whole_round()
    extras = {field: getattr(cohort.extras, field)[:-1] for field in ("steps", "class_counts", "maps", "labelled")}
    extras["vectors"] = {vector: each[:-1] for vector, each in cohort.extras.vectors.items()}
    parts = {"ids": cohort.ids[:-1], "samples": cohort.samples[:-1], "losses": cohort.losses[:-1]}
    without = whole_round(weights=cohort.weights[:-1], extras=extras, **parts)
    weights = cohort.weights.copy()
    weights[-1, 2] = np.nan

    result = RULES[name](whole_round(weights=weights))

    assert result.dropped == (cohort.ids[-1],)
    assert result.weights.tobytes() == RULES[name](without).weights.tobytes()


@pytest.mark.parametrize("name", RULES)
def test_the_registered_defaults_are_accepted(name: str) -> None:
    rule = get_rule(name, **RULES[name].defaults)

    assert rule(whole_round()).weights.tobytes() == RULES[name](whole_round()).weights.tobytes()


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


def test_a_state_is_read_as_it_was_written() -> None:
    state = RuleState("fedopt", {"m": np.array([1.5, -2.0]), "v": np.array([0.0, 3e300])}, 7)

    read = RuleState.from_bytes(state.to_bytes(), 2)

    assert (read.rule, read.step) == ("fedopt", 7)
    assert {name: values.tolist() for name, values in read.arrays.items()} == {"m": [1.5, -2.0], "v": [0.0, 3e300]}
    for size in (1, 3):
        with pytest.raises(DataError, match=f"of {size} values"):
            RuleState.from_bytes(state.to_bytes(), size)
    whole = RuleState("fedopt", {"m": np.array([1.0, np.nan])}).to_bytes()
    for data in (whole, whole[:-3], b"AURS", b""):
        with pytest.raises(DataError, match="state"):
            RuleState.from_bytes(data, 2)


def test_the_state_of_another_rule_is_not_used() -> None:
    extras = Extras(state=RuleState("scaffold", {"c": np.ones(1)}))

    assert extras.kept_by("feddyn").arrays == {}
    assert extras.kept_by("scaffold").array("c", 1).tolist() == [1.0]
