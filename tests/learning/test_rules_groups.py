"""FedDisco and ACMU, the clustering under it and PKCF's features, on numbers worked out by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import agrees, in_one_layer, line, whole_round

from auricle.errors import DataError, SettingsError
from auricle.wire.prior_knowledge import class_gradient
from auricle_learning.aggregation.cohort import Cohort, CohortError
from auricle_learning.aggregation.feature_synthesis import (
    creff_match,
    first_features,
    match_loss_grad,
    mean_class_gradients,
    pkcf,
)
from auricle_learning.aggregation.rules.clustering import _farthest_first, clusters, cosines, k_means, silhouette
from auricle_learning.methods import get_rule
from auricle_learning.methods.feddisco import discrepancies


@pytest.mark.parametrize(
    ("options", "counts", "expected"),
    [
        # KL of (1, 0): ln 2, of (½, ½): 0; divided by their sum 1 and 0. p ∝ 0.75 - 0.5 + 0.1, 0.25 + 0.1: equal.
        ({}, [[6, 0], [1, 1]], {"score": [1.0, 0.0], "share": [0.5, 0.5], "weights": [12.0]}),
        # Nothing left, or all even: by size.
        ({"a": 9.0, "b": 0.0}, [[6, 0], [0, 2]], {"share": [0.75, 0.25]}),
        ({"b": 0.0}, [[2, 2], [0, 0]], {"share": [0.75, 0.25]}),
        # l1 from (¾, ¼): ½ and 0. p ∝ ¾ - ½ · ½ + ¼, ¼ + ¼: 0.6 and 0.4.
        ({"a": 0.5, "b": 0.25, "metric": "l1", "target": [3, 1]}, [[2, 2], [6, 2]], {"share": [0.6, 0.4]}),
    ],
)
def test_feddisco_by_hand(options: dict[str, Any], counts: list[list[int]], expected: dict[str, Any]) -> None:
    result = get_rule("feddisco", **options)(line([8.0, 16.0], samples=[3, 1], class_counts=counts))

    agrees(result, rtol=1e-12, **expected)
    assert result.score_of == "discrepancy of the client's classes"


def test_a_target_of_ones_own() -> None:
    far = discrepancies(np.array([[3.0, 1.0], [1.0, 1.0]]), "kl", [3, 1])

    assert far.tolist() == [0.0, 1.0]
    with pytest.raises(CohortError, match="target has 3 classes"):
        discrepancies(np.array([[3.0, 1.0]]), "kl", [1, 1, 1])
    with pytest.raises(SettingsError, match=r"target is \[1, 0\]"):
        get_rule("feddisco", target=[1, 0])


@pytest.mark.parametrize(
    ("metric", "expected", "even"),
    [
        ("l1", 0.5, 1.0),
        ("l2", math.sqrt(0.125), math.sqrt(0.5)),
        ("cosine", 1 - 0.5 / math.sqrt(0.5 * 0.625), 1 - math.sqrt(0.5)),
    ],
)
def test_other_discrepancies_are_from_the_target(metric: str, expected: float, even: float) -> None:
    """Shares of ½ and ½ where ¾ and ¼ are wanted; the second client has them. Without a target: from all alike."""
    far = discrepancies(np.array([[2.0, 2.0], [6.0, 2.0]]), metric, [3, 1])
    from_even = discrepancies(np.array([[4.0, 0.0], [3.0, 3.0]]), metric, None)

    np.testing.assert_allclose([far, from_even], [[expected, 0.0], [even, 0.0]], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "cohort", "says"),
    [
        ("feddisco", line([1.0]), "class"),
        ("feddisco", line([1.0], class_counts=[[3, -1]]), "class"),
        ("acmu", line([1.0, 2.0], starts=[[1.0, 2.0], [3.0, 4.0]]), "size"),
    ],
)
def test_rounds_that_lack_something_are_refused(name: str, cohort: Cohort, says: str) -> None:
    with pytest.raises(CohortError, match=says):
        get_rule(name)(cohort)


def test_cosines_of_zero_are_zero_and_of_itself_one() -> None:
    found = cosines(np.array([[4.0, -2.0, 0.0], [-2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))

    assert found.tolist() == [[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_silhouette_by_hand() -> None:
    distance = np.array([[0, 1, 4, 5], [1, 0, 4, 5], [4, 4, 0, 2], [5, 5, 2, 0]], float)
    pairs = silhouette(distance, np.array([0, 0, 1, 1]))
    assert pairs == pytest.approx(((4.5 - 1) / 4.5 * 2 + (4 - 2) / 4 + (5 - 2) / 5) / 4)
    alone = silhouette(distance, np.array([0, 0, 0, 1]))
    assert alone == pytest.approx(((5 - 2.5) / 5 * 2 + (2 - 4) / 4 + 0) / 4)
    assert silhouette(np.zeros((3, 3)), np.array([0, 0, 1])) == 0.0


def points(rng: Any, groups: int, each: int) -> Any:
    middles = np.linalg.qr(rng.standard_normal((8, 8)))[0][:groups]
    found = np.concatenate([m + 0.05 * rng.standard_normal((each, 8)) for m in middles])
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.parametrize("groups", [2, 3, 5, 6])
def test_the_number_of_groups_is_found(groups: int) -> None:
    z = points(np.random.default_rng(groups), groups, 4)

    labels, value = clusters(z @ z.T)

    assert labels.tolist() == [k for k in range(groups) for _ in range(4)]
    assert value is not None and value > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_k_means_is_the_best_of_all_partitions_of_a_few_in_clear_cases(seed: int) -> None:
    z = points(np.random.default_rng(seed), 3, 2)

    def inertia(labels: Any) -> float:
        labels = np.asarray(labels)
        return sum(float(np.square(z[labels == g] - z[labels == g].mean(axis=0)).sum()) for g in set(labels.tolist()))

    least = min(inertia(labels) for labels in itertools.product(range(3), repeat=6) if len(set(labels)) == 3)
    assert inertia(k_means(z @ z.T, 3)) == pytest.approx(least)


def test_middles_begin_with_the_clients_that_are_farthest_from_those_chosen() -> None:
    """Directions of 0, 20, 90, 180 and 270 degrees: of the two that are as far from the first and its opposite, one."""
    at = np.radians([0.0, 20.0, 90.0, 180.0, 270.0])
    similarity = np.cos(at[:, None] - at)
    assert _farthest_first(similarity, 0, 1) == [0]
    assert _farthest_first(similarity, 0, 5) == [0, 3, 2, 4, 1]
    assert _farthest_first(similarity, 1, 3) == [1, 3, 4]
    assert _farthest_first(np.ones((3, 3)), 0, 3) == [0, 1, 2], "who lies on another one is not chosen twice"


def test_up_to_two_clients_are_one_group_and_equal_ones_do_not_fail() -> None:
    assert clusters(np.ones((1, 1)))[0].tolist() == [0]
    assert clusters(np.eye(2)) == (pytest.approx([0, 0]), None)
    labels, value = clusters(np.ones((5, 5)))
    assert value == 0.0
    assert len(set(labels.tolist())) == 2


def test_acmu_with_equal_samples_is_fedavg_and_keeps_a_model_for_each_group() -> None:
    # Two groups by sign: their steps are 1.5 and -3.
    result = get_rule("acmu")(line([1.0, 2.0, -3.0, -3.0], samples=[1] * 4))

    np.testing.assert_allclose(result.weights, [-0.75])
    assert result.clusters is not None
    assert result.clusters.labels == (0, 0, 1, 1)
    np.testing.assert_allclose(result.clusters.models[:, 0], [1.5, 1.5, -3.0, -3.0])
    unequal = get_rule("acmu")(line([1.0, 2.0, -3.0, -3.0], samples=[3, 1, 0, 4]))
    np.testing.assert_allclose(unequal.weights, [0.5 * 1.5 - 0.5 * 3])
    np.testing.assert_allclose(unequal.share[:, 0], [0.25] * 4)
    assert get_rule("acmu")(line([7.0], 1.0)).weights.tolist() == [7.0]


def test_acmu_goes_by_maps_too_and_from_each_clients_own_model() -> None:
    maps = [[1, 0], [0, 1], [1, 0], [0, 1]]
    by_maps = get_rule("acmu", alpha=0.0)(line([1.0, 2.0, 3.0, 4.0], maps=maps))
    assert by_maps.clusters is not None
    assert by_maps.clusters.labels == (0, 1, 0, 1)
    starts = [[10.0], [20.0], [30.0], [40.0]]
    own = get_rule("acmu", alpha=0.0)(line([11.0, 22.0, 33.0, 44.0], maps=maps, starts=starts))
    assert own.clusters is not None
    np.testing.assert_allclose(own.clusters.models[:, 0], [12, 23, 32, 43])
    np.testing.assert_allclose(own.weights, [27.5])


def test_acmu_weighs_alike_and_makes_no_more_groups_than_it_may() -> None:
    cohort = line([1.0, 2.0, -3.0, -3.0], samples=[3, 1, 0, 4])
    np.testing.assert_allclose(get_rule("acmu", weighting="uniform")(cohort).weights, [-0.75])
    z = points(np.random.default_rng(5), 5, 4)
    apart = in_one_layer(z)

    found = [get_rule("acmu", max_clusters=most)(apart).clusters for most in (3, 5)]

    assert [len(set(each.labels)) for each in found if each is not None] == [3, 5]


@pytest.mark.parametrize("most", [1, 2, 4, 6])
def test_a_number_of_groups_is_as_fixed_as_it_is_named(most: int) -> None:
    apart = in_one_layer(points(np.random.default_rng(5), 5, 4))
    made = get_rule("acmu", clusters=most)(apart).clusters

    assert made is not None and set(made.labels) == set(range(most))
    assert (made.silhouette is None) == (most == 1)
    two = get_rule("acmu", clusters=2)(line([1.0, -1.0])).clusters
    assert two is not None and two.labels == (0, 1)


def test_each_group_of_table_1_is_averaged_as_fedavg_does() -> None:
    """Groups of 1 and 2, -3 and -3 with 3 and 1 clips, none and 4: 1 + 1/4, -3. In one group FedAvg itself."""
    cohort = line([1.0, 2.0, -3.0, -3.0], samples=[3, 1, 0, 4])
    made = get_rule("acmu", clusters=2, group_mean="samples")(cohort)

    assert made.clusters is not None
    np.testing.assert_allclose(made.clusters.models[:, 0], [1.25, 1.25, -3.0, -3.0])
    single = get_rule("acmu", clusters=1, group_mean="samples")(cohort)
    agrees(single, weights=get_rule("fedavg")(cohort).weights, rtol=1e-12)
    unknown = get_rule("acmu", clusters=2, group_mean="samples")(line([1.0, 2.0, -3.0], samples=[0, 0, 4]))
    assert unknown.clusters is not None
    np.testing.assert_allclose(unknown.clusters.models[:, 0], [1.5, 1.5, -3.0])


def test_acmu_does_not_depend_on_scale() -> None:
    cohort, start = whole_round(9, np.float64), whole_round(9).start
    scaled = whole_round(9, np.float64, weights=start + 100 * (cohort.weights - start), start=start.astype(float))

    ours, theirs = get_rule("acmu")(cohort), get_rule("acmu")(scaled)

    assert ours.clusters is not None
    assert theirs.clusters is not None
    assert ours.clusters.labels == theirs.clusters.labels


CLASSES, WIDTH, EACH = 3, 4, 5


def classifier() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(2)
    return rng.standard_normal((CLASSES, WIDTH)), rng.standard_normal(CLASSES), rng


def test_the_gradient_of_a_class_is_that_of_differences() -> None:
    weight, bias, rng = classifier()
    h = rng.standard_normal((EACH, WIDTH))

    def loss(v: Any) -> float:
        logits = h @ v[: weight.size].reshape(weight.shape).T + v[weight.size :]
        return float((np.log(np.exp(logits).sum(axis=1)) - logits[:, 1]).mean())

    v = np.concatenate([weight.ravel(), bias])
    differences = [(loss(v + unit) - loss(v - unit)) / 2e-6 for unit in np.eye(v.size) * 1e-6]
    np.testing.assert_allclose(class_gradient(h, 1, weight, bias), differences, atol=1e-8)


@pytest.mark.parametrize("match", [match_loss_grad, creff_match])
def test_the_gradient_of_matching_is_that_of_differences_and_absent_classes_stay(match: Any) -> None:
    weight, bias, rng = classifier()
    features = rng.standard_normal((CLASSES, EACH, WIDTH))
    targets = {k: rng.standard_normal(CLASSES * WIDTH + CLASSES) for k in (0, 2)}

    _, gradient = match(features, targets, weight, bias)

    for place in np.ndindex(features.shape):
        unit = np.zeros_like(features)
        unit[place] = 1e-6
        up, down = (match(features + way * unit, targets, weight, bias)[0] for way in (1, -1))
        assert gradient[place] == pytest.approx((up - down) / 2e-6, abs=1e-8)
    assert not gradient[1].any()


def test_pkcf_matches_the_clients_gradients() -> None:
    weight, bias, rng = classifier()
    clients = [
        {k: class_gradient(rng.standard_normal((9, WIDTH)) + 2, k, weight, bias) for k in (0, 1)} for _ in range(3)
    ]
    targets = mean_class_gradients(clients)
    first = first_features(CLASSES, WIDTH, m=EACH, seed=1)

    made, losses = pkcf(first, targets, weight, bias, steps=300, lr=0.5)

    assert list(targets) == [0, 1]
    assert losses[-1] < 0.1 * losses[0]
    assert made[2].tobytes() == first[2].tobytes()
    assert pkcf(first, {0: np.zeros(CLASSES * WIDTH + CLASSES)}, weight, bias, steps=3)[1] == [1.0] * 4


def test_creffs_distance_is_by_rows_and_pkcfs_by_the_whole() -> None:
    weight, bias, rng = classifier()
    features = rng.standard_normal((CLASSES, EACH, WIDTH))
    made = class_gradient(features[1], 1, weight, bias)
    scaled = made * np.repeat([1.0, 5.0, 2.0, 3.0], [WIDTH, WIDTH, WIDTH, CLASSES])  # each row and the bias by its own

    by_rows, whole = (match(features, {1: scaled}, weight, bias)[0] for match in (creff_match, match_loss_grad))

    assert by_rows == pytest.approx(0.0, abs=1e-3)
    assert whole > 0.01
    opposite = creff_match(features, {1: -made}, weight, bias)[0]
    assert opposite == pytest.approx(2 * (CLASSES + 1), rel=1e-3)
    losses = pkcf(features, {1: rng.standard_normal(made.size)}, weight, bias, steps=100, lr=0.2, match=creff_match)[1]
    assert losses[-1] < losses[0]


def test_pkcf_means_are_by_owner_and_leave_out_what_is_not_finite() -> None:
    means = mean_class_gradients(
        [{0: np.array([1.0])}, {0: np.array([3.0]), 1: np.array([5.0])}, {0: np.array([np.nan])}]
    )

    assert {label: vector.tolist() for label, vector in means.items()} == {0: [2.0], 1: [5.0]}


def test_pkcf_refuses_what_does_not_fit() -> None:
    weight, bias, _ = classifier()
    with pytest.raises(DataError, match="do not fit a classifier of 3 x 4"):
        pkcf(np.zeros((3, 2, 5)), {}, weight, bias)
    with pytest.raises(DataError, match="gradient of class 7"):
        pkcf(np.zeros((3, 2, 4)), {7: np.zeros(15)}, weight, bias)
