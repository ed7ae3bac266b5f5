"""FedOPT, FedNova, DnC and RAF on numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import agrees, line, one_client, whole_round

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Cohort, CohortError, Layer
from auricle_learning.methods import get_rule


def test_the_first_steps_of_adam_are_those_of_reddi() -> None:
    # Δ = 2; m = 0.1·2, v = 0.99·1e-6 + 0.01·4; then Δ = 1 from the new model.
    rule = get_rule("fedopt")
    first = rule(line([1.0, 3.0], samples=[1, 1]))
    m, v = 0.2, 0.99e-6 + 0.04
    w = 0.01 * m / (math.sqrt(v) + 1e-3)
    np.testing.assert_allclose(first.weights, [w], rtol=1e-14)

    second = rule(one_client(w + 1, start=w, state=first.state))

    m, v = 0.9 * m + 0.1, 0.99 * v + 0.01
    np.testing.assert_allclose(second.weights, [w + 0.01 * m / (math.sqrt(v) + 1e-3)], rtol=1e-12)
    assert second.state is not None
    assert second.state.step == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"variant": "adagrad"}, 0.01 * 2 / (math.sqrt(1e-6 + 4) + 1e-3)),  # β1 = 0
        ({"variant": "yogi"}, 0.01 * 0.2 / (math.sqrt(1e-6 + 0.04) + 1e-3)),  # v < Δ²: v grows
        ({"variant": "torch-adam"}, 1e-3 * 2 / (2 + 1e-8)),  # with bias correction m̂ = Δ, v̂ = Δ²
        ({"v0": 0.0, "lr": 1.0, "tau": 1e-9}, 0.2 / (0.2 + 1e-9)),
        ({"bias_correction": True, "v0": 0.0, "tau": 1e-8, "beta2": 0.999, "lr": 1e-3}, 1e-3 * 2 / (2 + 1e-8)),
    ],
)
def test_the_first_step_of_each_variant(options: dict[str, Any], expected: float) -> None:
    np.testing.assert_allclose(get_rule("fedopt", **options)(one_client(2.0)).weights, [expected], rtol=1e-12)


def test_fedopt_weighs_by_samples_unless_told_otherwise() -> None:
    by_samples = get_rule("fedopt")(line([0.0, 4.0], samples=[3, 1]))
    by_losses = get_rule("fedopt", weighting="fedvsa")(line([0.0, 4.0], samples=[3, 1]))

    assert by_samples.share[:, 0].tolist() == [0.75, 0.25]
    assert by_losses.share[:, 0].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("name", "options", "cohort", "expected"),
    [
        # a = 1, 4; p = 1/2 each: τ_eff = 2.5, x = 2.5 (½·2/1 + ½·8/4).
        ("fednova", {}, line([2.0, 8.0], steps=[1, 4]), {"weights": [5.0], "share": [1.25, 0.3125]}),
        ("fednova", {}, line([2.0, 99.0], steps=[3, 0]), {"weights": [2.0], "kept": [1, 0]}),
        ("fednova", {}, line([2.0], steps=[0]), {"flag": "no client took a step: the model is unchanged"}),
        # Momentum ½ of three steps: 1 + 1½ + 1¾; a proximal term: 1 + ½ + ¼.
        ("fednova", {"momentum": 0.5}, line([1.0, 1.0], steps=[3, 1]), {"score": [4.25, 1.0]}),
        ("fednova", {"mu": 2.0}, line([1.0, 1.0], steps=[3, 1], rate=0.25), {"score": [1.75, 1.0]}),
        (
            *("fednova", {"mu": 2.0, "lr": 0.25, "tau_eff": "steps"}, line([1.0, 1.0], steps=[3, 1])),
            {"share": [2 * 0.5 / 1.75, 2 * 0.5 / 1.0]},
        ),
        # Centred: -2.5, -1.5, -0.5, 4.5; all of one dimension, so s is their square.
        (
            *("dnc", {"attackers": 1}, line([0.0, 1.0, 2.0, 7.0])),
            {"score": [6.25, 2.25, 0.25, 20.25], "weights": [1.0], "kept": [1, 1, 1, 0], "rtol": 1e-7},
        ),
    ],
)
def test_rounds_by_hand(name: str, options: dict[str, Any], cohort: Cohort, expected: dict[str, Any]) -> None:
    agrees(get_rule(name, **options)(cohort), **expected)


def test_fednova_with_equal_steps_is_fedavg_and_raf_the_geometric_median() -> None:
    cohort = whole_round(extras={"steps": np.full(7, 5.0)})

    agrees(get_rule("fednova")(cohort), rtol=1e-6, weights=get_rule("fedavg")(cohort).weights)
    ours, theirs = get_rule("raf")(cohort), get_rule("geometric-median")(cohort)
    assert ours.weights.tobytes() == theirs.weights.tobytes()


def test_fednova_refuses_what_it_cannot_compute() -> None:
    with pytest.raises(CohortError, match="needs the number of steps"):
        get_rule("fednova")(line([1.0]))
    with pytest.raises(CohortError, match="needs the clients' learning rate"):
        get_rule("fednova", mu=1.0)(line([1.0], steps=[1]))
    with pytest.raises(SettingsError, match="momentum and mu cannot both"):
        get_rule("fednova", mu=1.0, momentum=0.5)


def test_dnc_finds_the_direction_among_many() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((12, 40)) * 0.1
    weights[[2, 9]] += 3.0
    centred = weights - weights.mean(axis=0)
    top = np.linalg.svd(centred)[2][0]
    cohort = whole_round(12, np.float64, extras={}, weights=weights, start=np.zeros(40), layers=_one(40))

    result = get_rule("dnc", attackers=2)(cohort)

    np.testing.assert_allclose(result.score, np.square(centred @ top), rtol=1e-6, atol=1e-8)
    assert np.flatnonzero(~result.kept[:, 0]).tolist() == [2, 9]


def test_dnc_keeps_the_intersection_of_its_draws_and_draws_by_the_round() -> None:
    rng = np.random.default_rng(4)
    weights = rng.standard_normal((9, 30))
    rule = get_rule("dnc", attackers=2, n_iters=3, b=3)

    def round_of(number: int) -> Any:
        parts = {"weights": weights, "start": np.zeros(30), "layers": _one(30)}
        return rule(whole_round(9, np.float64, extras={"round": number}, **parts))

    kept = [round_of(number).kept[:, 0] for number in range(6)]
    assert all(1 <= row.sum() <= 7 for row in kept)
    assert len({row.tobytes() for row in kept}) > 1
    assert round_of(3).weights.tobytes() == round_of(3).weights.tobytes()


@pytest.mark.parametrize("attackers", [0, 1, 5])
def test_dnc_keeps_at_least_one(attackers: int) -> None:
    assert get_rule("dnc", attackers=attackers)(line([5.0])).weights.tolist() == [5.0]
    assert get_rule("dnc", attackers=attackers + 3)(line([0.0, 1.0, 7.0])).kept.sum() == 1


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({}, [9]),
        ({"c": 0.0}, []),
        ({"attackers": 2}, [8, 9]),
        ({"attackers": 2, "c": 1.5}, [0, 8, 9]),
        ({"attackers": 0}, []),
    ],
)
def test_dnc_leaves_out_so_many_times_its_attackers(options: dict[str, Any], left_out: list[int]) -> None:
    """Of 0, 1, 4 ... 81, whose mean is 28.5, the farthest are 81, 64 and 0."""
    result = get_rule("dnc", **options)(line([float(k) ** 2 for k in range(10)]))

    assert np.flatnonzero(~result.kept[:, 0]).tolist() == left_out
    assert get_rule("dnc")(line([float(k) ** 2 for k in range(20)])).kept.sum() == 18


def test_dnc_draws_by_its_seed_and_does_not_draw_where_it_takes_all() -> None:
    cohort = whole_round(9, np.float64)
    drawn = [get_rule("dnc", b=3, seed=seed)(cohort).score for seed in range(4)]
    whole = [get_rule("dnc", b=b, seed=seed)(cohort).score for b, seed in ((12, 0), (12, 1), (13, 0))]

    assert len({score.tobytes() for score in drawn if score is not None}) == 4
    assert len({score.tobytes() for score in whole if score is not None}) == 1


def _one(size: int) -> Any:
    return (Layer("all", (slice(0, size),)),)
