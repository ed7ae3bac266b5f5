"""Median, trimmed mean, Krum, Multi-Krum, geometric median and norm clipping, by hand and against plain readings."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.learning.rule_cases import agrees, in_one_layer
from tests.recorder import Record

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Cohort, Layer
from auricle_learning.methods import get_rule

NAN, INF = math.nan, math.inf
FEW = settings(max_examples=60)


def cohort_of(weights: Any, **changes: Any) -> Cohort:
    """Give one client a row, in layers of two values and a rest."""
    values = np.array(weights)
    values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    values = values[:, None] if values.ndim == 1 else values
    size = values.shape[1]
    cuts = [0, min(2, size), size] if size > 2 else [0, size]
    layers = tuple(Layer(f"l{a}", (slice(a, b),)) for a, b in itertools.pairwise(cuts))
    return in_one_layer(values, **{"layers": layers, **changes})


FAR = [0, 1, 2, 3.5, 100, 50]
STRANGE = [[1, 9, 0], [5, 0, 0], [3, 1, 7]]
MOVED = 1 + np.array([[3, 4], [6, 8], [30, 40]], np.float64)
THIRD = [1 / 3] * 3 + [0] * 3
STILL = ("the geometric median was still moving after 1 steps.",)
FEW_FOR_KRUM = ("4 clients are too few to withstand 1 attackers; it takes 5.",)


@pytest.mark.parametrize(
    ("name", "options", "cohort", "expected"),
    [
        ("median", {}, cohort_of([[1, 9], [5, 0], [3, 1]]), {"weights": [3, 1]}),
        ("median", {}, cohort_of([4, 1, 100, 2]), {"weights": [3]}),  # the mean of the middle two
        # The first layer is the third client's, of the second the first two are halves: they tie at 0.
        ("median", {}, cohort_of(STRANGE), {"share": [0, 0, 1], "kept": [0, 0, 1]}),
        # n = 6, f = 1: three neighbours. Of 2: 1 + 1.5² + 2².
        (
            *("krum", {"attackers": 1}, cohort_of(FAR)),
            {"score": [17.25, 8.25, 7.25, 20.75, 21416.25, 6867.25], "weights": [2], "kept": [0, 0, 1, 0, 0, 0]}
            | {"warnings": ()},
        ),
        # One neighbour: the closest pair always ties, and the id decides.
        (
            *("krum", {"attackers": 1}, cohort_of([9, 3, 2, 30], ids=["d", "c", "b", "a"])),
            {"weights": [2], "warnings": FEW_FOR_KRUM},
        ),
        ("multi-krum", {"attackers": 1}, cohort_of(FAR, samples=[1] * 5 + [1000]), {"weights": [1], "share": THIRD}),
        # Start (0 + 4 + 11) / 3 = 5; distances 5, 1, 6; weights 6/30, 30/30, 5/30, which sum to 41/30.
        (
            *("geometric-median", {"iterations": 1}, cohort_of([0, 4, 11])),
            {"weights": [175 / 41], "share": [6 / 41, 30 / 41, 5 / 41], "warnings": STILL, "rtol": 1e-7},
        ),
        # Norms 5, 10, 50, the median is 10: the third counts a fifth. Start (1, 1).
        (
            *("norm-clip", {}, cohort_of(MOVED, samples=[1, 2, 1], start=np.ones(2))),
            {"weights": [1 + 21 / 4, 1 + 28 / 4], "share": [1 / 4, 1 / 2, 1 / 20], "score": [5, 10, 50], "rtol": 1e-7},
        ),
        ("norm-clip", {"bound": 1.0}, cohort_of([[3.0, 4.0], [0.0, 0.0]]), {"weights": [0.3, 0.4], "rtol": 1e-7}),
        # The median norm is 0: who did not move counts whole, who moved not at all.
        (
            *("norm-clip", {}, cohort_of([0.0, 0.0, 4.0])),
            {"weights": [0], "share": [1 / 3, 1 / 3, 0], "score": [0, 0, 4]},
        ),
    ],
)
def test_a_round_by_hand(name: str, options: dict[str, Any], cohort: Cohort, expected: dict[str, Any]) -> None:
    agrees(get_rule(name, **options)(cohort), **expected)


def test_the_median_tells_which_part_of_a_layer_a_client_decided() -> None:
    result = get_rule("median")(cohort_of(STRANGE))

    assert (result.share[:, 1].tolist(), result.kept[:, 1].tolist()) == ([0.5, 0.5, 0], [True, True, False])


def test_the_trimmed_mean_cuts_each_value_by_itself() -> None:
    values = [[1, 50], [2, 10], [3, 20], [4, 30], [99, 0]]

    fifth = get_rule("trimmed-mean", beta=0.2)(cohort_of(values))
    given_ = get_rule("trimmed-mean", cut=2)(cohort_of(values))

    assert fifth.weights.tolist() == [3, 20]
    assert given_.weights.tolist() == [3, 20]
    np.testing.assert_allclose(fifth.share[:, 0], [0, 1 / 3, 1 / 3, 1 / 3, 0])
    assert fifth.warnings == given_.warnings == ()


def test_a12_the_trimmed_mean_forgives_binary_fractions() -> None:
    values = [float(k**2) for k in range(100)]

    result = get_rule("trimmed-mean", beta=0.29)(cohort_of(values))

    np.testing.assert_allclose(result.weights, [np.mean(values[29:71])])


def test_a_trimmed_mean_that_cuts_nothing_or_everything_says_so() -> None:
    nothing = get_rule("trimmed-mean", beta=0.1)(cohort_of([0, 1, 5]))
    everything = get_rule("trimmed-mean", cut=2)(cohort_of([0, 1, 5, 9]))

    assert (nothing.weights.tolist(), everything.weights.tolist()) == ([2], [3])
    assert nothing.warnings == ("beta 0.1 cuts nothing off in a cohort of 3; it is the mean.",)
    assert everything.warnings == ("cut 2 at both ends leaves nobody of 4: the median is taken.",)


def test_a_trimmed_mean_that_is_asked_to_cut_nothing_warns_of_nothing() -> None:
    for asked in (get_rule("trimmed-mean", beta=0), get_rule("trimmed-mean", cut=0)):
        result = asked(cohort_of([0, 1, 5]))
        assert (result.weights.tolist(), result.warnings) == ([2], ())
    assert get_rule("trimmed-mean", beta=0.5 - 1e-8)(cohort_of([0, 1, 5])).weights.tolist() == [1]
    with pytest.raises(SettingsError, match=r"beta is 0\.5"):
        get_rule("trimmed-mean", beta=0.5)
    for beta in (0.5 - 1e-10, 0.5 - 1e-13):
        with pytest.raises(SettingsError, match="nobody"):
            get_rule("trimmed-mean", beta=beta)


def test_without_a_number_a_tenth_are_taken_for_attackers_and_at_least_one() -> None:
    values = np.arange(30.0) ** 2

    for count, attackers in ((9, 1), (20, 2), (30, 3)):
        ours = get_rule("multi-krum")(cohort_of(values[:count]))
        theirs = get_rule("multi-krum", attackers=attackers)(cohort_of(values[:count]))
        assert ours.share.tolist() == theirs.share.tolist()
        assert ours.kept[:, 0].sum() == count - attackers - 2


def test_fedvsa_weighs_those_whom_krum_accepts() -> None:
    losses = [0.0, math.log(3), NAN, 5.0, 5.0, 5.0]

    result = get_rule("multi-krum", attackers=1, weighting="fedvsa")(cohort_of([0, 1, 2, 3.5, 100, 50], losses=losses))
    nobody = get_rule("krum", attackers=1, weighting="fedvsa")(cohort_of([0, 1, 2, 3.5, 100, 50], losses=losses))

    np.testing.assert_allclose(result.share[:, 0], [1 / 4, 3 / 4, 0, 0, 0, 0])
    np.testing.assert_allclose(result.weights, [0.75])
    assert nobody.weights.tolist() == [0]
    assert nobody.flag == "no usable inference loss: the model is unchanged"
    assert not nobody.kept.any()


def test_the_geometric_median_of_a_line_is_its_median() -> None:
    result = get_rule("geometric-median", ftol=0.0, iterations=300)(cohort_of([0, 1, 2, 3, 1000]))

    np.testing.assert_allclose(result.weights, [2], atol=1e-5)
    assert result.score is not None
    np.testing.assert_allclose(result.score, [2, 1, 0, 1, 998], atol=1e-5)


def test_the_geometric_median_of_a_triangle_sees_its_sides_under_equal_angles() -> None:
    corners = np.array([[0, 0], [4, 0], [1, 3]], np.float64)

    result = get_rule("geometric-median", ftol=0.0, iterations=300)(cohort_of(corners))

    towards = corners - result.weights
    unit = towards / np.linalg.norm(towards, axis=1, keepdims=True)
    np.testing.assert_allclose(unit.sum(axis=0), 0, atol=1e-6)


@pytest.mark.parametrize(("weighting", "first"), [("samples", 0.5), ("uniform", 1 / 3), ("fedvsa", 0.625)])
def test_the_geometric_median_starts_with_the_weights_it_is_told(weighting: str, first: float) -> None:
    losses = [math.log(5), 0.0, math.log(2)]
    far = [0.0, 1e-9, 2e-9]  # all within ν: the weights stay

    result = get_rule("geometric-median", weighting=weighting)(cohort_of(far, samples=[2, 1, 1], losses=losses))

    np.testing.assert_allclose(result.share[0, 0], first)
    nobody = get_rule("geometric-median", weighting="fedvsa")(cohort_of([1, 2]))
    assert nobody.weights.tolist() == [0] and not nobody.kept.any()


def test_norm_clipping_bounds_what_an_attacker_moves() -> None:
    result = get_rule("norm-clip")(cohort_of(np.array([[0.1], [-0.1], [0.1], [1e38]], np.float32)))

    assert abs(float(result.weights[0])) < 0.11


@pytest.mark.reliability("S9", load="exact cases")
@pytest.mark.parametrize("name", ["median", "trimmed-mean", "krum", "multi-krum", "geometric-median"])
@pytest.mark.parametrize("evil", [1e6, 1e38, -3e38])
def test_a_minority_far_away_moves_nothing(name: str, evil: float, record_property: Record) -> None:
    rng = np.random.default_rng(0)
    honest = rng.normal(1.0, 0.1, (8, 5)).astype(np.float32)
    options: dict[str, Any] = {"trimmed-mean": {"beta": 0.2}, "krum": {"attackers": 2}, "multi-krum": {"attackers": 2}}

    result = get_rule(name, **options.get(name, {}))(cohort_of(np.vstack([honest, np.full((2, 5), evil, np.float32)])))

    record_property("weights off by", round(float(np.abs(result.weights - 1).max()), 3))
    assert (np.abs(result.weights - 1) < 0.5).all()


@pytest.mark.parametrize("name", ["median", "trimmed-mean", "krum", "multi-krum", "geometric-median", "norm-clip"])
def test_a_float64_model_near_the_largest_number_survives(name: str) -> None:
    result = get_rule(name)(cohort_of([1.0, 1.5, 2.0, 3.0, 2.5, 1.7e308, 1.7e308]))

    assert np.isfinite(result.weights).all()
    json.dumps(result.explain(), allow_nan=False)


@FEW
@given(seed=st.integers(0, 10_000), count=st.integers(1, 25), size=st.integers(1, 9), beta=st.floats(0, 0.49))
def test_coordinate_wise_rules_are_their_plain_reading(seed: int, count: int, size: int, beta: float) -> None:
    values = np.random.default_rng(seed).integers(-4, 5, (count, size)).astype(np.float32) / 3
    cohort = cohort_of(values)
    ends = math.floor(beta * count + 1e-9)

    median, trimmed = get_rule("median")(cohort), get_rule("trimmed-mean", beta=beta)(cohort)

    np.testing.assert_array_equal(median.weights, np.median(values.astype(np.float64), axis=0).astype(np.float32))
    middle = np.sort(values.astype(np.float64), axis=0)[ends : count - ends]
    np.testing.assert_allclose(trimmed.weights, middle.mean(axis=0), rtol=1e-6, atol=1e-7)
    for result in (median, trimmed):
        np.testing.assert_allclose(result.share.sum(axis=0), 1)


@FEW
@given(seed=st.integers(0, 10_000), count=st.integers(1, 25), attackers=st.integers(0, 8))
def test_krum_is_its_plain_reading(seed: int, count: int, attackers: int) -> None:
    values = np.random.default_rng(seed).integers(-3, 4, (count, 4)).astype(np.float32)

    result = get_rule("multi-krum", attackers=attackers)(cohort_of(values))

    near = max(1, count - attackers - 2)
    scores = []
    for one in values:
        others = sorted(float(((one - other) ** 2).sum()) for other in values)[1:]
        scores.append(float(f"{sum(others[:near]):.9e}"))
    best = sorted(range(count), key=lambda k: (scores[k], k))[: min(near, count)]
    assert result.score is not None
    assert result.score.tolist() == scores
    assert sorted(best) == np.flatnonzero(result.kept[:, 0]).tolist()
    np.testing.assert_allclose(result.weights, values[best].mean(axis=0), rtol=1e-6, atol=1e-7)
