"""SCAFFOLD, FedDyn and FedDC: the server's step by hand, and against clients that do their half."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.learning.rule_cases import LAYERS, SIZE, line, whole_round

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Cohort, CohortError
from auricle_learning.aggregation.extras import Extras, RuleState
from auricle_learning.methods import get_rule
from auricle_learning.methods.feddc import relative_sizes

STEPS, RATE = 5, 0.05
ONE = RuleState("scaffold", {"c": np.array([1.0])})
CURVES = np.array([1.0, 2.0, 0.5, 3.0])
GOALS = np.random.default_rng(5).standard_normal((4, SIZE))


@pytest.mark.parametrize(
    ("options", "cohort", "variate"),
    [
        # Who took no step does not move the variate: 1 + (-2 - 1) / 2.
        ({}, line([0.0, 3.0], 1.0, steps=[0, 1], rate=1.0, clients=2, state=ONE), -0.5),
        # Two steps with ρ = ½ count as (2 - ½ (1 - ¼) / ½) / ½ = 2.5: the gradient is (0 - 1) / (2.5 · 0.1) = -4.
        ({"momentum": 0.5}, line([1.0], steps=[2], rate=0.1, clients=1), -4.0),
        # A fleet is no smaller than its cohort.
        *(({}, line([1.0, 3.0], steps=[1, 1], rate=1.0, clients=clients), -2.0) for clients in (None, 1)),
    ],
)
def test_the_variate_of_scaffold_by_hand(options: dict[str, float], cohort: Cohort, variate: float) -> None:
    result = get_rule("scaffold", **options)(cohort)

    assert result.state is not None
    np.testing.assert_allclose(result.state.arrays["c"], [variate])


def test_scaffold_by_hand() -> None:
    # x = 1, c = 0.5, η = 0.1: gradients (1 - 0) / (2·0.1) = 5, (1 - 3) / (4·0.1) = -5; Δc = 4.5, -5.5; N = 4.
    state = RuleState("scaffold", {"c": np.array([0.5])}, 2)
    result = get_rule("scaffold")(line([0.0, 3.0], 1.0, steps=[2, 4], rate=0.1, clients=4, state=state))

    np.testing.assert_allclose(result.weights, [1.5])
    assert result.state is not None
    np.testing.assert_allclose(result.state.arrays["c"], [0.5 - 1 / 4])
    assert result.state.step == 3
    half = get_rule("scaffold", lr=0.5)(line([0.0, 3.0], 1.0, steps=[2, 4], rate=0.1, clients=4, state=state))
    np.testing.assert_allclose(half.weights, [1.25])


@pytest.mark.parametrize(
    "extras", [{"steps": [1]}, {"rate": 0.1}, *({"steps": [1], "rate": r} for r in (0.0, -0.1, math.nan))]
)
def test_scaffold_refuses_a_round_without_steps_or_a_rate(extras: dict[str, Any]) -> None:
    with pytest.raises(CohortError, match="needs the"):
        get_rule("scaffold")(line([1.0], **extras))


def round_of(weights: Any, who: list[int], start: Any, state: Any) -> Cohort:
    return Cohort.build(
        ids=[f"{k}" for k in who],
        weights=weights,
        samples=[1] * len(who),
        start=start,
        layers=LAYERS,
        extras=Extras(steps=np.full(len(who), STEPS), rate=RATE, clients=4, total_samples=4, state=state),
    )


def slope(k: int, w: Any) -> Any:
    return CURVES[k] * (w - GOALS[k])


def test_scaffold_with_its_clients_keeps_c_their_mean_and_finds_the_minimum() -> None:
    x, state, own = np.zeros(SIZE), None, np.zeros((4, SIZE))
    rule = get_rule("scaffold")
    for _ in range(400):
        c = np.zeros(SIZE) if state is None else state.arrays["c"]
        ends = []
        for k in range(4):
            y = x.copy()
            for _ in range(STEPS):
                y -= RATE * (slope(k, y) - own[k] + c)
            own[k] += (x - y) / (STEPS * RATE) - c
            ends.append(y)
        made = rule(round_of(np.array(ends), [0, 1, 2, 3], x, state))
        x, state = made.weights, made.state
        np.testing.assert_allclose(state.arrays["c"], own.mean(axis=0), atol=1e-10)

    np.testing.assert_allclose(x, (CURVES @ GOALS) / CURVES.sum(), atol=1e-6)


def test_feddyn_by_hand() -> None:
    # θ^t = 1: drifts -1 and 2, Σ = 1; h = 0.5 - 0.1/4 = 0.475; mean 1.5 - 4.75.
    state = RuleState("feddyn", {"h": np.array([0.5])}, 2)
    result = get_rule("feddyn", alpha=0.1)(line([0.0, 3.0], 1.0, clients=4, state=state))

    np.testing.assert_allclose(result.weights, [1.5 - 4.75])
    assert result.state is not None
    np.testing.assert_allclose(result.state.arrays["h"], [0.475])
    assert result.state.step == 3


def test_feddyn_with_its_clients_finds_the_minimum_with_some_of_them_a_round() -> None:
    alpha, x, state, own = 0.5, np.zeros(SIZE), None, np.zeros((4, SIZE))
    rule, rng = get_rule("feddyn", alpha=alpha), np.random.default_rng(0)
    for _ in range(600):
        who = sorted(rng.choice(4, 3, replace=False).tolist())
        ends = [(CURVES[k] * GOALS[k] + own[k] + alpha * x) / (CURVES[k] + alpha) for k in who]  # the exact minimum
        for k, end in zip(who, ends, strict=True):
            own[k] -= alpha * (end - x)
        made = rule(round_of(np.array(ends), who, x, state))
        x, state = made.weights, made.state

    np.testing.assert_allclose(x, (CURVES @ GOALS) / CURVES.sum(), atol=1e-5)


def test_feddc_by_hand() -> None:
    # w = 1, N = 4, Σn = 8: ω = 1, 3. Drifts -1, 2; Σ over all 0.5 + 1. g⁺ - g: (1/0.2 - g), 3 (-2/0.4) - g with g = 2.
    arrays = {"g": np.array([2.0]), "h_sum": np.array([0.5])}
    extras: dict[str, Any] = {"steps": [2, 4], "rate": 0.1, "clients": 4, "total_samples": 8.0}
    result = get_rule("feddc")(line([0.0, 3.0], 1.0, [2, 6], state=RuleState("feddc", arrays), **extras))

    np.testing.assert_allclose(result.weights, [1.5 + 1.5 / 4])
    assert result.state is not None
    np.testing.assert_allclose(result.state.arrays["h_sum"], [1.5])
    np.testing.assert_allclose(result.state.arrays["g"], [2 + (5 - 2 - 15 - 2) / 4])


def test_feddc_of_the_paper_adds_each_clients_own_drift_of_all_its_rounds() -> None:
    # Drifts -1 and 2, p = 1/4 and 3/4: 2.25 + ¼ (-1) + ¾ 2; then the first alone, which has -1 of before.
    rule, extras = get_rule("feddc", mode="paper"), {"rate": 0.1, "clients": 4, "total_samples": 8.0}

    first = rule(line([0.0, 3.0], 1.0, [2, 6], steps=[2, 4], **extras))

    np.testing.assert_allclose(first.weights, [3.5])
    assert first.state is not None
    assert first.state.step == 1
    second = rule(line([0.5], 1.0, [2], steps=[2], state=first.state, **extras))
    np.testing.assert_allclose(second.weights, [0.5 - 1.5])
    assert second.state is not None
    assert {name: second.state.arrays[name].tolist() for name in ("h/00", "h/01")} == {"h/00": [-1.5], "h/01": [2.0]}
    assert second.state.step == 2


@pytest.mark.parametrize(
    ("samples", "total", "found"),
    [
        ([2.0, 6.0], 8.0, [1.0, 3.0]),
        ([2.0, 6.0], 32.0, [0.25, 0.75]),
        ([2.0, 6.0], None, [0.5, 1.5]),
        ([2.0, 6.0], 7.0, [0.5, 1.5]),
        ([0.0, 0.0], None, [1.0, 1.0]),
    ],
)
def test_sizes_are_relative_to_the_average_client(
    samples: list[float], total: float | None, found: list[float]
) -> None:
    """Of four; where the total is not known, or cannot be, the others are as large as those that came."""
    cohort = line([0.0, 3.0], samples=samples, clients=4, total_samples=total)

    assert relative_sizes(cohort).tolist() == found


@pytest.mark.parametrize(("clip", "limited"), [(0.0, 10.0), (5.0, 5.0)])
def test_clients_of_feddyn_train_with_its_pull_and_a_limit(clip: float, limited: float) -> None:
    rule = get_rule("feddyn", alpha=0.25)
    assert rule.plan is not None

    plan = rule.plan(Plan(clip=clip), rule.options)

    assert (plan.mu, plan.method, plan.clip) == (0.25, "feddyn", limited)


@pytest.mark.parametrize("name", ["fedvsa", "lpa+fedvsa"])
def test_devices_say_the_loss_that_fedvsa_is_told_to_weigh_by(name: str) -> None:
    assert get_rule(name).plan_for(Plan()) == Plan(), "cross-entropy, which no plan has to name"
    assert get_rule(name, inference_loss="l1").plan_for(Plan(epochs=2)) == Plan(epochs=2, inference_loss="l1")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode({}), type=Plan).inference_loss == "ce"


def test_clients_of_fedprox_train_with_its_pull() -> None:
    rule = get_rule("fedprox", mu=0.5)
    assert rule.plan is not None

    assert rule.plan(Plan(), rule.options) == Plan(mu=0.5)


def test_feddc_of_the_paper_is_the_authors_with_all_clients_of_equal_size() -> None:
    changes = {"samples": [4] * 7, "extras": {"clients": 7, "total_samples": 28.0}}
    ours, paper = get_rule("feddc"), get_rule("feddc", mode="paper")
    first, same = ours(whole_round(dtype=np.float64, **changes)), paper(whole_round(dtype=np.float64, **changes))
    np.testing.assert_allclose(first.weights, same.weights, rtol=1e-10)

    def second(state: Any) -> Cohort:
        return whole_round(dtype=np.float64, samples=[4] * 7, extras={**changes["extras"], "state": state})  # type: ignore[dict-item]

    np.testing.assert_allclose(ours(second(first.state)).weights, paper(second(same.state)).weights, rtol=1e-10)
    assert paper(second(same.state)).share[:, 0].tolist() == pytest.approx([1 / 7] * 7)


@pytest.mark.parametrize("name", ["scaffold", "feddyn", "feddc"])
def test_their_mean_may_be_fedvsas(name: str) -> None:
    result = get_rule(name, weighting="fedvsa")(whole_round())

    np.testing.assert_allclose(result.share, get_rule("fedvsa")(whole_round()).share)
