"""The small steps that rules share, at their limits: ranks, shares, limited losses, and what an option may be."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import PLAIN, in_one_layer

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.options import check_choice, check_number
from auricle_learning.aggregation.rules.average import ascending, fraction_of, sample_share, ten_digits
from auricle_learning.aggregation.rules.fedvsa import limit_losses, softmax_share
from auricle_learning.aggregation.rules.lpa import LpaOptions
from auricle_learning.methods import get_rule


def _line(count: int) -> Cohort:
    """Clients at 0, 1, 4, 9 and so on."""
    return in_one_layer(np.arange(count, dtype=np.float64)[:, None] ** 2)


def test_ranks_are_by_value_and_where_ten_digits_are_equal_by_place() -> None:
    """The first two pairs are ties, whether all of the values are or not; the last differ in the ninth digit."""
    assert ascending(np.array([1 + 1e-12, 1.0])).tolist() == [0, 1]
    assert ascending(np.array([5.0, 1 + 1e-12, 1.0])).tolist() == [1, 2, 0]
    assert ascending(np.array([1 + 1e-8, 1.0])).tolist() == [1, 0]
    assert ascending(np.array([1e6 + 1e-6, 1e6])).tolist() == [0, 1]
    assert ascending(np.array([3.0, 1.0, 2.0])).tolist() == [1, 2, 0]


def test_what_is_infinitely_far_is_last_and_nothing_is_said_of_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ascending(np.array([math.inf, 1.0, math.inf])).tolist() == [1, 0, 2]


def test_ten_digits_are_ten() -> None:
    assert ten_digits(np.array([1.23456789049, 1.23456789051])).tolist() == [1.23456789, 1.234567891]


@pytest.mark.parametrize(("fraction", "count", "found"), [(0.29, 100, 29), (0.1, 19, 1), (0.1, 20, 2), (0.0, 9, 0)])
def test_a_fraction_of_a_cohort_is_rounded_down(fraction: float, count: int, found: int) -> None:
    assert fraction_of(fraction, count) == found


def test_a_share_is_by_samples_in_each_layer_or_equal_where_nobody_has_any() -> None:
    kept = np.array([[1, 1, 0], [1, 0, 1], [0, 0, 1]], np.bool_)

    assert sample_share(np.array([1.0, 3.0, 0.0]), kept).tolist() == [[0.25, 1, 0], [0.75, 0, 1], [0, 0, 0]]
    assert sample_share(np.array([1.0, 0.0, 0.0]), kept)[:, 2].tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("losses", "clip", "limited"),
    [
        ([0.6, 0.8], 0.5, [0.3, 0.4]),
        ([0.6, 0.8], 2.0, [0.6, 0.8]),
        ([3.0, 4.0], 10.0, [3.0, 4.0]),
        ([3.0, math.nan, 4.0], 2.5, [1.5, math.nan, 2.0]),
        ([math.inf, 4.0, -math.inf], 3.0, [1.8, 2.4, 0.0]),
        ([0.0, 0.0], 1.0, [0.0, 0.0]),
    ],
)
def test_the_norm_of_the_losses_is_limited(losses: list[float], clip: float, limited: list[float]) -> None:
    """Of (3, 4) it is 5; infinity counts as the limit, a loss that is missing does not count."""
    assert limit_losses(np.array(losses), clip=clip, limit="norm") == pytest.approx(limited, nan_ok=True)


def test_each_loss_is_clamped() -> None:
    found = limit_losses(np.array([-1.0, 0.5, 7.0, math.inf, -math.inf, math.nan]), clip=2.0, limit="clamp")

    assert found == pytest.approx([0, 0.5, 2, 2, 0, math.nan], nan_ok=True)


@pytest.mark.parametrize("level", [0.0, 800.0, -800.0])
def test_a_softmax_is_the_same_at_any_level(level: float) -> None:
    """ln 3 more is three times the weight; who is not chosen has none."""
    limited = np.array([level, math.nan, level + math.log(3)])

    assert softmax_share(limited, np.array([True, False, True])) == pytest.approx([0.25, 0, 0.75])


# -- options


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        *((value, {}) for value in (0.0, 0, 1e300)),
        (2.0, {"least": 2.0}),
        (0.5, {"below": 1.0}),
        (1e-300, {"above": True}),
        (0.0, {"below": 1.0}),
    ],
)
def test_a_number_within_its_limits_is_taken(value: object, limits: dict[str, Any]) -> None:
    check_number("x", value, **limits)


@pytest.mark.parametrize(
    ("value", "limits", "says"),
    [
        *((value, {}, "at least 0.") for value in (-1e-300, True, "1", None, math.nan, math.inf)),
        (0.0, {"above": True}, "greater than 0."),
        (1.9, {"least": 2.0}, "at least 2."),
        (1.0, {"below": 1.0}, "at least 0 and less than 1."),
    ],
)
def test_a_number_beyond_its_limits_is_refused(value: object, limits: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError) as error:
        check_number("x", value, **limits)
    assert str(error.value).startswith(f"x is {value!r};") and str(error.value).endswith(says)


def test_a_choice_is_one_of_its_words() -> None:
    check_choice("limit", "norm", ("clamp", "norm"))

    with pytest.raises(SettingsError, match=r'^limit is "norn"; did you mean "norm"'):
        check_choice("limit", "norn", ("clamp", "norm"))


@pytest.mark.parametrize(("rest", "allowed"), [(1.5e-9, False), (2.5e-9, True)])
def test_lpa_leaves_a_client_in_every_layer(rest: float, allowed: bool) -> None:
    """Each floor may take 1e-9 too much: what is left has to be more than both."""
    if allowed:
        LpaOptions(0.5, 0.5 - rest)
        return
    with pytest.raises(SettingsError, match="sum to 1 or more"):
        LpaOptions(0.5, 0.5 - rest)


# -- how many attackers Krum withstands


@pytest.mark.parametrize(("count", "attackers", "few"), [(5, 1, False), (4, 1, True), (7, 2, False), (6, 2, True)])
def test_krum_warns_below_twice_its_attackers_and_three(count: int, attackers: int, few: bool) -> None:
    cohort = _line(count)

    for name in ("krum", "multi-krum"):
        result = get_rule(name, attackers=attackers)(cohort)
        least = 2 * attackers + 3
        sentence = f"{count} clients are too few to withstand {attackers} attackers; it takes {least}."
        assert result.warnings == ((sentence,) if few else ())


# -- a rule that is called without `get_rule`


def test_the_options_of_each_rule_are_those_of_the_documentation() -> None:
    limited = {"clip": 5.0, "limit": "clamp"}
    pruning = {"prune_low": 0.1, "prune_high": 0.1}
    krum = {"attackers": None, "weighting": "uniform", **limited}

    median = {"nu": 1e-6, "ftol": 1e-6, "iterations": 100, "weighting": "samples", **limited}

    assert {name: rule.settings for name, rule in PLAIN.items()} == {
        "fedavg": {"weighting": "samples"},
        "fedprox": {"mu": 0.01, "weighting": "samples", "clip": 5.0, "limit": "clamp"},
        "lpa": pruning,
        "fedmlac": {"alpha": 0.5, **pruning, "mutual": True, "lpa": True},
        "fedvsa": {**limited, "inference_loss": "ce"},
        "lpa+fedvsa": {**pruning, **limited, "inference_loss": "ce"},
        "median": {},
        "trimmed-mean": {"beta": 0.1, "cut": None},
        "krum": krum,
        "multi-krum": krum,
        "geometric-median": median,
        "raf": median,
        "dnc": {"attackers": None, "c": 1.0, "n_iters": 1, "b": 10_000, "seed": 0, "weighting": "uniform", **limited},
        "norm-clip": {"bound": None},
    }
