"""Every rule on numbers worked out by hand, and the edges that ALGORITHMS.md decides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import agrees, in_one_layer

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Cohort, Layer
from auricle_learning.methods import get_rule

NAN, INF = math.nan, math.inf
FRONT_AND_HEAD = (Layer("front", (slice(0, 1), slice(2, 3))), Layer("head", (slice(1, 2),)))


def five_clients(**changes: Any) -> Cohort:
    """Give five clients whose front is a multiple of (3, 4) and whose head is one number.

    Front: multiples 0, 1, 2, 3, 9, mean 3, so δ = 15, 10, 5, 0, 30. Head: 10, 20, 30, 40, 0, mean 20, so
    δ = 10, 0, 10, 20, 20 with a tie at the far end.
    """
    front = np.outer([0, 1, 2, 3, 9], [3, 4])
    head = [10, 20, 30, 40, 0]
    parts: dict[str, Any] = {
        "ids": ["a", "b", "c", "d", "e"],
        "weights": np.column_stack([front[:, 0], head, front[:, 1]]).astype(np.float32),
        "samples": [1, 2, 3, 4, 5],
        "losses": [0.0, math.log(2), math.log(5), NAN, 3.0],
        "start": np.array([7.0, 8.0, 9.0], np.float32),
        "layers": FRONT_AND_HEAD,
    }
    return Cohort.build(**{**parts, **changes})


def line(values: list[float], **changes: Any) -> Cohort:
    """Give one client for each number, all in one layer of one float64 value; w^t is -1."""
    return in_one_layer(np.array(values, np.float64)[:, None], **{"start": np.array([-1.0]), **changes})


def softmax(*losses: float) -> Any:
    return np.exp(losses) / np.exp(losses).sum()


THREE = [8.0, 16.0, 24.0]
HONEST = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98]
NORM = {"clip": 5, "limit": "norm"}


@pytest.mark.parametrize(
    ("name", "options", "values", "given", "expected"),
    [
        ("fedavg", {}, THREE, {"samples": [1, 2, 5]}, {"weights": [20.0], "share": [0.125, 0.25, 0.625]}),
        ("fedavg", {"weighting": "uniform"}, THREE, {"samples": [1, 2, 5]}, {"weights": [16.0]}),
        ("fedavg", {}, THREE, {"samples": [0, 0, 0]}, {"weights": [16.0]}),
        ("fedavg", {}, [8.0, NAN, 24.0], {"samples": [1, 100, 3]}, {"weights": [20.0], "dropped": ("01",)}),
        # A10: a tie is decided by id, and the size is exact.
        ("lpa", {"prune_low": 0.25, "prune_high": 0.25}, [1.0, -1.0, 1.0, -1.0], {}, {"kept": [0, 1, 1, 0]}),
        # A15: counts and sizes are those of the finite clients; those who are kept count alike without samples.
        (
            "lpa",
            {"prune_low": 0, "prune_high": 0.2},
            [0.0, 1.0, 2.0, 3.0, NAN],
            {},
            {"kept": [1] * 4, "weights": [1.5]},
        ),
        ("lpa", {"prune_low": 0, "prune_high": 0.34}, [1.0, 3.0, 50.0], {"samples": [0, 0, 9]}, {"weights": [2.0]}),
        # As many outliers as it prunes, and weights whose squares overflow.
        ("lpa", {"prune_low": 0, "prune_high": 0.2}, [*HONEST, 1e6, -1e5], {}, {"weights": [1.0], "rtol": 1e-7}),
        ("lpa", {"prune_low": 0, "prune_high": 0.4}, [1.0, 2.0, 3.0, 1.7e308, 1.7e308], {}, {"weights": [2.0]}),
        (
            *("fedvsa", {}, THREE, {"losses": [0.0, math.log(2), math.log(5)], "samples": [100, 1, 0]}),
            {"share": [1 / 8, 2 / 8, 5 / 8], "weights": [20.0]},
        ),
        (
            *("fedvsa", {}, THREE, {"losses": [1.0, NAN, 1.0]}),
            {"weights": [16.0], "kept": [1, 0, 1], "share": [0.5, 0.0, 0.5]},
        ),
        # A38: losses are clamped, infinity is the limit, and a liar gains at most e to the C.
        ("fedvsa", {"clip": 5}, [1, 2, 3, 4], {"losses": [-1.0, 7.0, INF, -INF]}, {"share": softmax(0, 5, 5, 0)}),
        ("fedvsa", {"clip": 5}, [1, 2], {"losses": [0.0, 1e300]}, {"share": softmax(0, 5)}),
        # A38: by their norm all are scaled together; 10 is halved, 5 stays, infinity is C.
        ("fedvsa", NORM, [1, 2, 3], {"losses": [6.0, 8.0, NAN]}, {"share": [*softmax(3, 4), 0]}),
        ("fedvsa", NORM, [1, 2], {"losses": [3.0, 4.0]}, {"share": softmax(3, 4)}),
        ("fedvsa", NORM, [1, 2], {"losses": [INF, 0.0]}, {"share": softmax(5, 0), "rtol": 1e-13}),
        ("fedvsa", NORM, [1, 2], {"losses": [0.0, 0.0]}, {"share": [0.5, 0.5]}),
    ],
)
def test_one_value_by_hand(name: str, options: Any, values: list[float], given: Any, expected: dict[str, Any]) -> None:
    agrees(get_rule(name, **options)(line(values, **given)), **expected)


def test_lpa_leaves_out_nearest_and_furthest_in_each_layer() -> None:
    cohort = five_clients()

    result = get_rule("lpa", prune_low=0.2, prune_high=0.2)(cohort)

    # front over a, b, c: multiple (0*1 + 1*2 + 2*3) / 6 = 4/3; head over a, c, d: (10*1 + 30*3 + 40*4) / 8 = 32.5.
    np.testing.assert_allclose(result.weights, [4.0, 32.5, 16 / 3], rtol=1e-7)
    assert result.deviation is not None
    np.testing.assert_allclose(result.deviation, [[15, 10], [10, 0], [5, 10], [0, 20], [30, 20]], rtol=1e-14)
    assert result.kept.T.tolist() == [[True, True, True, False, False], [True, False, True, True, False]]
    np.testing.assert_allclose(result.share.T, [[1 / 6, 2 / 6, 3 / 6, 0, 0], [1 / 8, 0, 3 / 8, 4 / 8, 0]])
    assert result.warnings == ()
    front, head = result.explain()
    assert (front["kept"], front["pruned_low"], front["pruned_high"]) == (["a", "b", "c"], ["d"], ["e"])
    assert (head["kept"], head["pruned_low"], head["pruned_high"]) == (["a", "c", "d"], ["b"], ["e"])
    assert head["deviation"] == {"a": 10.0, "b": 0.0, "c": 10.0, "d": 20.0, "e": 20.0}
    assert head["share"]["c"] == 0.375


def test_a10_deviations_equal_in_ten_digits_are_a_tie() -> None:
    close = line([0.0, 10.0, -10.0 * (1 + 1e-12), 0.0])
    apart = line([0.0, 10.0 * (1 + 1e-6), -10.0, 0.0])
    rule = get_rule("lpa", prune_low=0, prune_high=0.25)

    assert rule(close).kept[:, 0].tolist() == [True, True, False, True]
    assert rule(apart).kept[:, 0].tolist() == [True, False, True, True]


def test_a12_the_floor_forgives_binary_fractions() -> None:
    cohort = line([float(k) for k in range(100)])

    result = get_rule("lpa", prune_low=0.29, prune_high=0.57)(cohort)

    assert 0.29 * 100 < 29
    assert 0.57 * 100 < 57
    assert result.pruned is not None
    assert (result.pruned == -1).sum() == 29
    assert (result.pruned == 1).sum() == 57


def test_a13_a_cohort_too_small_to_prune_is_averaged_with_a_warning() -> None:
    result = get_rule("lpa", prune_low=0.1, prune_high=0.2)(five_clients(weights=np.ones((5, 3), np.float32)))
    silent = get_rule("lpa", prune_low=0, prune_high=0.2)(five_clients())

    assert result.warnings == (
        "prune_low 0.1 left nobody out: 0.1 of 5 devices is less than one. It leaves one out from 10 devices on.",
    )
    assert silent.warnings == ()


@pytest.mark.parametrize("name", ["fedvsa", "lpa+fedvsa"])
@pytest.mark.parametrize("clients", [1, 3])
def test_without_any_loss_the_model_stays(name: str, clients: int) -> None:
    result = get_rule(name)(line([8.0] * clients))

    assert result.weights.tolist() == [-1.0]
    assert result.flag == "no usable inference loss: the model is unchanged"
    assert not result.share.any()
    assert not result.kept.any()


def test_lpa_fedvsa_weighs_the_kept_by_their_losses() -> None:
    cohort = five_clients()

    result = get_rule("lpa+fedvsa", prune_low=0.2, prune_high=0.2)(cohort)

    # front over a, b, c: (0*1 + 1*2 + 2*5) / 8 = 1.5 times (3, 4); head over a, c, and d without a loss:
    # (10*1 + 30*5) / 6.
    np.testing.assert_allclose(result.weights, [4.5, 160 / 6, 6.0], rtol=1e-7)
    np.testing.assert_allclose(result.share.T, [[1 / 8, 2 / 8, 5 / 8, 0, 0], [1 / 6, 0, 5 / 6, 0, 0]], rtol=1e-14)
    assert result.flag is None


def test_lpa_fedvsa_keeps_a_layer_in_which_no_kept_client_has_a_loss() -> None:
    # b and e have losses; the head keeps a, c and d.
    cohort = five_clients(losses=[NAN, 1.0, NAN, NAN, 2.0])

    result = get_rule("lpa+fedvsa", prune_low=0.2, prune_high=0.2)(cohort)

    assert result.weights.tolist() == [3.0, 8.0, 4.0]
    assert result.share[:, 1].tolist() == [0.0] * 5
    assert result.flag == "no usable inference loss among those kept in head: unchanged there"


def test_lpa_fedvsa_says_who_was_far_also_where_nobody_has_a_loss() -> None:
    """What an operator sees of distances is that of lpa, whether or not the model moves."""
    options = {"prune_low": 0.2, "prune_high": 0.2}
    plain = get_rule("lpa", **options)(five_clients())
    nobody = get_rule("lpa+fedvsa", **options)(five_clients(losses=[NAN] * 5))
    moved = get_rule("lpa+fedvsa", **options)(five_clients())

    assert plain.deviation is not None and nobody.deviation is not None and moved.deviation is not None
    assert nobody.deviation.tolist() == moved.deviation.tolist() == plain.deviation.tolist()
    assert moved.kept.tolist() == plain.kept.tolist() and nobody.flag is not None
    few = {"prune_low": 0.1, "prune_high": 0.1}
    warned = get_rule("lpa", **few)(five_clients()).warnings
    assert warned
    assert get_rule("lpa+fedvsa", **few)(five_clients(losses=[NAN] * 5)).warnings == warned
    assert get_rule("lpa+fedvsa", **few)(five_clients()).warnings == warned


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("lpaa", {}, 'mean "lpa"'),
        ("xyz", {}, "fedavg, .*krum, .*lpa, lpa\\+fedvsa"),
        ("lpa", {"prune_hi": 0.1}, 'mean "prune_high"'),
        ("fedvsa", {"prune_high": 0.1}, 'no option "prune_high"'),
        ("lpa", {"prune_low": True}, "prune_low is True"),
        ("lpa", {"prune_low": 1.0}, "^prune_low is 1.0; .* less than 1"),
        ("lpa", {"prune_high": 1.0}, "^prune_high is 1.0; .* less than 1"),
        ("median", {"beta": 0.1}, 'no option "beta"'),
        ("krum", {"attackers": True}, "attackers is True"),
        ("multi-krum", {"weighting": "samples"}, "weighting"),
        ("fedopt", {"weighting": "loss"}, "weighting"),
        ("lpa", {"prune_high": NAN}, "prune_high is nan"),
        ("lpa", {"prune_low": 0.5, "prune_high": 0.5}, "sum"),
        ("lpa", {"prune_low": 0.9, "prune_high": 0.1 - 1e-12}, "sum"),
        ("lpa", {"prune_high": 0.9}, "sum"),
        ("lpa+fedvsa", {"prune_low": 0.7, "prune_high": 0.3}, "sum"),
        ("fedvsa", {"clip": INF}, "clip is inf"),
    ],
)
def test_a_mistake_in_the_settings_is_named_before_any_round(
    name: str, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        get_rule(name, **options)
