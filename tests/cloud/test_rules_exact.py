"""Every rule on numbers worked out by hand, and the edges that ALGORITHMS.md decides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.cloud.rule_cases import PLAIN

from auricle.errors import SettingsError
from auricle_cloud.aggregation.cohort import Cohort, Layer
from auricle_cloud.aggregation.rules import RULES, get_rule

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
    parts: dict[str, Any] = {
        "ids": [f"{k:02d}" for k in range(len(values))],
        "weights": np.array(values, np.float64)[:, None],
        "samples": np.ones(len(values)),
        "start": np.array([-1.0]),
        "layers": (Layer("x", (slice(0, 1),)),),
    }
    return Cohort.build(**{**parts, **changes})


def test_fedavg_weighs_by_samples() -> None:
    result = get_rule("fedavg")(line([8, 16, 24], samples=[1, 2, 5]))

    assert result.weights.tolist() == [(8 + 32 + 120) / 8]
    assert result.share[:, 0].tolist() == [0.125, 0.25, 0.625]


@pytest.mark.parametrize(("weighting", "samples"), [("uniform", [1, 2, 5]), ("samples", [0, 0, 0])])
def test_fedavg_is_uniform_when_asked_or_when_nobody_has_samples(weighting: str, samples: list[int]) -> None:
    result = get_rule("fedavg", weighting=weighting)(line([8, 16, 24], samples=samples))

    np.testing.assert_allclose(result.weights, [16.0], rtol=1e-15)


def test_fedavg_leaves_out_who_is_not_finite() -> None:
    result = get_rule("fedavg")(line([8, NAN, 24], samples=[1, 100, 3]))

    assert result.weights.tolist() == [20.0]
    assert result.dropped == ("01",)


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


def test_lpa_explains_each_layer_by_client_id() -> None:
    front, head = get_rule("lpa", prune_low=0.2, prune_high=0.2)(five_clients()).explain()

    assert (front["kept"], front["pruned_low"], front["pruned_high"]) == (["a", "b", "c"], ["d"], ["e"])
    assert (head["kept"], head["pruned_low"], head["pruned_high"]) == (["a", "c", "d"], ["b"], ["e"])
    assert head["deviation"] == {"a": 10.0, "b": 0.0, "c": 10.0, "d": 20.0, "e": 20.0}
    assert head["share"]["c"] == 0.375


def test_a10_a_tie_is_decided_by_id_and_the_size_is_exact() -> None:
    cohort = line([1.0, -1.0, 1.0, -1.0])

    result = get_rule("lpa", prune_low=0.25, prune_high=0.25)(cohort)

    assert result.kept[:, 0].tolist() == [False, True, True, False]


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

    assert result.warnings == ("prune_low 0.1 removes nobody from a cohort of 5; it takes 10.",)
    assert silent.warnings == ()


def test_a15_counts_and_sizes_are_those_of_the_finite_clients() -> None:
    values = [0.0, 1.0, 2.0, 3.0, NAN]

    result = get_rule("lpa", prune_low=0, prune_high=0.2)(line(values))

    assert result.kept.all()
    assert result.weights.tolist() == [1.5]


def test_a15_kept_clients_without_samples_count_equally() -> None:
    result = get_rule("lpa", prune_low=0, prune_high=0.34)(line([1.0, 3.0, 50.0], samples=[0, 0, 9]))

    assert result.weights.tolist() == [2.0]


def test_lpa_withstands_as_many_outliers_as_it_prunes() -> None:
    honest = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98]

    result = get_rule("lpa", prune_low=0, prune_high=0.2)(line([*honest, 1e6, -1e5]))

    np.testing.assert_allclose(result.weights, [1.0])


def test_lpa_survives_weights_whose_squares_overflow() -> None:
    result = get_rule("lpa", prune_low=0, prune_high=0.4)(line([1.0, 2.0, 3.0, 1.7e308, 1.7e308]))

    assert result.weights.tolist() == [2.0]


def test_fedvsa_is_the_softmax_of_the_losses() -> None:
    losses = [0.0, math.log(2), math.log(5)]

    result = get_rule("fedvsa")(line([8, 16, 24], losses=losses, samples=[100, 1, 0]))

    np.testing.assert_allclose(result.share[:, 0], [1 / 8, 2 / 8, 5 / 8], rtol=1e-14)
    np.testing.assert_allclose(result.weights, [20.0], rtol=1e-14)


def test_a38_losses_are_clamped_and_infinity_is_the_limit() -> None:
    ours = get_rule("fedvsa", clip=5)(line([1, 2, 3, 4], losses=[-1.0, 7.0, INF, -INF]))

    low, high = (np.exp([0.0, 5.0]) / (2 + 2 * math.exp(5))).tolist()
    np.testing.assert_allclose(ours.share[:, 0], [low, high, high, low], rtol=1e-14)


def test_a38_the_norm_option_scales_all_losses_together() -> None:
    rule = get_rule("fedvsa", clip=5, limit="norm")

    scaled = rule(line([1, 2, 3], losses=[6.0, 8.0, NAN]))  # length 10: halved to 3 and 4
    short = rule(line([1, 2], losses=[3.0, 4.0]))  # length 5: as it is
    infinite = rule(line([1, 2], losses=[INF, 0.0]))  # C and 0
    zero = rule(line([1, 2], losses=[0.0, 0.0]))

    expected = [1 / (1 + math.e), math.e / (1 + math.e)]
    np.testing.assert_allclose(scaled.share[:, 0], [*expected, 0], rtol=1e-14)
    np.testing.assert_allclose(short.share[:, 0], expected, rtol=1e-14)
    np.testing.assert_allclose(infinite.share[0, 0] / infinite.share[1, 0], math.exp(5), rtol=1e-13)
    assert zero.share[:, 0].tolist() == [0.5, 0.5]


def test_a38_a_liar_gains_at_most_e_to_the_c() -> None:
    result = get_rule("fedvsa", clip=5)(line([1, 2], losses=[0.0, 1e300]))

    np.testing.assert_allclose(result.share[1, 0] / result.share[0, 0], math.exp(5))


def test_fedvsa_leaves_out_who_has_no_loss() -> None:
    result = get_rule("fedvsa")(line([8, 16, 24], losses=[1.0, NAN, 1.0]))

    assert result.weights.tolist() == [16.0]
    assert result.kept[:, 0].tolist() == [True, False, True]
    assert result.share[:, 0].tolist() == [0.5, 0.0, 0.5]


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


def test_lpa_fedvsa_keeps_the_clients_that_lpa_keeps_whatever_the_losses() -> None:
    options = {"prune_low": 0.2, "prune_high": 0.2}

    both = get_rule("lpa+fedvsa", **options)(five_clients(losses=[NAN, 1.0, NAN, INF, 0.0]))

    assert both.kept.tolist() == get_rule("lpa", **options)(five_clients()).kept.tolist()


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
    assert nobody.flag == "no usable inference loss: the model is unchanged"
    few = {"prune_low": 0.1, "prune_high": 0.1}
    warned = get_rule("lpa", **few)(five_clients()).warnings
    assert warned
    assert get_rule("lpa+fedvsa", **few)(five_clients(losses=[NAN] * 5)).warnings == warned
    assert get_rule("lpa+fedvsa", **few)(five_clients()).warnings == warned


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("lpaa", {}, 'no rule "lpaa"; did you mean "lpa"'),
        ("xyz", {}, "there is: .*fedavg, .*krum, lpa, lpa\\+fedvsa"),
        ("lpa", {"prune_hi": 0.1}, 'no option "prune_hi"; did you mean "prune_high"'),
        ("fedvsa", {"prune_high": 0.1}, 'the rule "fedvsa" has no option "prune_high"'),
        ("fedavg", {"weighting": "sample"}, 'weighting is "sample"; did you mean "samples"'),
        ("lpa", {"prune_low": -0.1}, "prune_low is -0.1; it must be a number at least 0 and less than 1"),
        ("lpa", {"prune_low": "0.1"}, "prune_low is '0.1'"),
        ("lpa", {"prune_low": True}, "prune_low is True"),
        ("lpa", {"prune_high": NAN}, "prune_high is nan"),
        ("lpa", {"prune_low": 0.5, "prune_high": 0.5}, "sum to 1 or more"),
        ("lpa", {"prune_low": 0.9, "prune_high": 0.1 - 1e-12}, "sum to 1 or more"),
        ("lpa", {"prune_high": 0.9}, "sum to 1 or more"),
        ("lpa+fedvsa", {"prune_low": 0.7, "prune_high": 0.3}, "sum to 1 or more"),
        ("lpa+fedvsa", {"clip": -1}, "clip is -1; it must be a number greater than 0"),
        ("fedvsa", {"clip": INF}, "clip is inf"),
        ("fedvsa", {"limit": "clam"}, 'did you mean "clamp"'),
    ],
)
def test_a_mistake_in_the_settings_is_named_before_any_round(
    name: str, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        get_rule(name, **options)


@pytest.mark.parametrize("name", PLAIN)
def test_the_registered_defaults_are_accepted(name: str) -> None:
    rule = get_rule(name, **RULES[name].defaults)

    assert rule(five_clients()).weights.tolist() == RULES[name](five_clients()).weights.tolist()


def test_a_rule_called_directly_refuses_the_same_options() -> None:
    with pytest.raises(SettingsError, match="sum to 1"):
        RULES["lpa"].function(five_clients(), prune_low=0.5, prune_high=0.5)
