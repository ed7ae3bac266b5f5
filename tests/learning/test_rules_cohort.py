"""Cohort: what is refused, what is dropped, and in what order clients stand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import PLAIN

from auricle_learning.aggregation.cohort import NO_UPDATE, Cohort, CohortError, Layer, layers_of

ONE_LAYER = (Layer("all", (slice(0, 2),)),)


def build(**changes: Any) -> Cohort:
    parts: dict[str, Any] = {
        "ids": ["b", "a"],
        "weights": np.array([[3.0, 4.0], [1.0, 2.0]], np.float32),
        "samples": [20, 10],
        "losses": [0.2, 0.1],
        "start": np.zeros(2, np.float32),
        "layers": ONE_LAYER,
    }
    return Cohort.build(**{**parts, **changes})


def test_clients_stand_in_the_order_of_their_ids() -> None:
    cohort = build()

    assert cohort.ids == ("a", "b")
    assert cohort.weights.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert cohort.samples.tolist() == [10.0, 20.0]
    assert cohort.losses.tolist() == [0.1, 0.2]
    assert np.isnan(build(losses=None).losses).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_a_client_with_one_bad_weight_is_dropped_whole(bad: float) -> None:
    """Finite in the type of the model, which is float32."""
    cohort = build(weights=[np.array([3.0, bad]), np.array([1.0, 2.0])])

    assert cohort.ids == ("a",)
    assert cohort.dropped == ("b",)
    assert cohort.samples.tolist() == [10.0]


def test_the_caller_may_go_on_writing_into_its_arrays() -> None:
    weights = np.ones((2, 2), np.float32)

    cohort = build(weights=weights)
    weights[:] = 7.0

    assert cohort.weights.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("changes", "noun"),
    [
        ({"ids": ["a", "a"]}, 'client "a"'),
        ({"ids": ["a"]}, "1 client ids"),
        ({"samples": [1, -1]}, "-1.0 samples"),
        ({"samples": [np.nan, 1]}, "nan samples"),
        ({"samples": [np.inf, 1]}, "inf samples"),
        ({"samples": [-1, 10], "weights": np.array([[np.nan, 4.0], [1.0, 2.0]], np.float32)}, "-1.0 samples"),
        ({"samples": [1]}, "sample counts"),
        ({"losses": [1.0]}, "losses"),
        ({"weights": np.ones((2, 3), np.float32)}, 'client "b" is float32'),
        ({"weights": np.ones((2, 2), np.int64)}, "int64"),
        ({"start": np.zeros((2, 1), np.float32)}, "vector"),
        ({"start": np.zeros(0, np.float32)}, "with values"),
        ({"start": np.array([0.0, np.nan])}, "not finite"),
        ({"layers": (Layer("x", (slice(0, 1),)),)}, "in 0 layers"),
        ({"layers": (*ONE_LAYER, Layer("x", (slice(1, 2),)))}, "in 2 layers"),
        ({"layers": (Layer("x", (slice(0, 3),)),)}, "inside"),
        ({"layers": (Layer("x", (slice(2),)),)}, "inside"),
        ({"layers": (*ONE_LAYER, Layer("x", ()))}, "no values"),
        ({"layers": (Layer("x", (slice(0, 1),)), Layer("x", (slice(1, 2),)))}, 'layer "x"'),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], noun: str) -> None:
    with pytest.raises(CohortError, match=noun):
        build(**changes)


def test_layers_follow_the_table_and_a_tensor_without_a_layer_is_its_own() -> None:
    table = [("c.w", 4, "c"), ("c.b", 2, "c"), ("head.w", 3, None), ("c.mean", 2, "c"), ("head.b", 1, "")]

    own = (Layer("head.w", (slice(6, 9),)), Layer("head.b", (slice(11, 12),)))
    assert layers_of(table) == (Layer("c", (slice(0, 6), slice(9, 11))), *own)


@pytest.mark.parametrize("table", [[("a", 1, None), ("a", 1, None)], [("a", -1, None)]])
def test_a_table_with_a_repeated_or_negative_tensor_is_refused(table: list[tuple[str, int, None]]) -> None:
    with pytest.raises(CohortError, match='"a"'):
        layers_of(table)


@pytest.mark.parametrize("rule", PLAIN.values(), ids=PLAIN)
def test_nobody_left_keeps_the_model_and_says_so(rule: Any) -> None:
    start = np.array([5.0, 6.0], np.float32)
    nan = np.full((2, 2), np.nan, np.float32)

    emptied = rule(build(weights=nan, start=start))
    empty = rule(build(ids=[], weights=[], samples=[], losses=None, start=start))

    assert emptied.weights.tolist() == empty.weights.tolist() == [5.0, 6.0]
    assert emptied.flag == empty.flag == NO_UPDATE
    assert emptied.dropped == ("a", "b")
    assert emptied.weights is not start


@pytest.mark.parametrize("rule", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("samples", [0, 3])
def test_one_client_alone_is_the_next_model(rule: Any, dtype: Any, samples: int) -> None:
    weights = np.array([[0.1, -1e-30]], dtype)

    result = rule(build(ids=["a"], weights=weights, samples=[samples], losses=[0.3], start=np.zeros(2, dtype)))

    assert result.weights.dtype == dtype
    assert result.weights.tobytes() == weights[0].tobytes()
    assert result.share.tolist() == [[1.0]]


@pytest.mark.parametrize("rule", PLAIN.values(), ids=PLAIN)
def test_the_explanation_goes_into_json_and_back(rule: Any) -> None:
    aggregate = rule(build())

    explained = aggregate.explain()

    assert json.loads(json.dumps(explained, allow_nan=False)) == explained
    assert explained[0]["layer"] == "all"
    assert list(explained[0]["share"]) == ["a", "b"]
