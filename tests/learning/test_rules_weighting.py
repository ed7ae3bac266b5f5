"""Whose update counts for how much: by samples, alike, or by the limited losses, in every rule that leaves it open."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.learning.rule_cases import PLAIN, line, whole_round

from auricle_learning.aggregation.cohort import NO_UPDATE
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.rules.weighting import WEIGHTINGS, WeightedOptions, client_share, update_norms
from auricle_learning.methods import RULES, get_rule

OPEN = [name for name, rule in RULES.items() if {"weighting", "clip", "limit"} <= set(rule.settings)]
WHOLE = [name for name in OPEN if name not in ("krum", "multi-krum", "geometric-median", "raf")]
"""Those whose `share` shows the weights of the clients; the others weigh one client, or points on the way."""
LOSSES = np.array([3.0, 4.0, 0.0, 1.0, math.nan, 2.0, 0.5])
SAMPLES = np.array([1, 2, 3, 4, 5, 6, 7])


def weights_of(name: str, **options: object) -> np.ndarray:
    """What the clients of a round counted for, and 0 for those that were left out; they sum to 1."""
    cohort = whole_round(7, np.float64, losses=LOSSES, samples=SAMPLES, extras={"steps": np.full(7, 3.0)})
    accept: dict[str, object] = {"epsilon": 1e3} if name == "zeno" else {}
    share = get_rule(name, **accept, **options)(cohort).share[:, 0]
    if name == "zeno":  # which also scales each update to the length of its own
        share = share * update_norms(cohort)
    return np.asarray(share / share.sum())


def among(kept: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    wanted = np.where(kept, wanted, 0.0)
    return np.asarray(wanted / wanted.sum())


def test_what_is_open() -> None:
    assert set(WHOLE) == {"dnc", "fedprox", "fedopt", "fednova", "scaffold", "feddyn", "feddc", "zeno"}


@pytest.mark.parametrize("name", WHOLE)
def test_clients_count_by_samples_or_alike(name: str) -> None:
    by_samples, alike = weights_of(name, weighting="samples"), weights_of(name, weighting="uniform")

    assert by_samples == pytest.approx(among(by_samples > 0, SAMPLES))
    assert alike == pytest.approx(among(alike > 0, np.ones(7)))
    assert (alike > 0).sum() > 1


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    ("limits", "limited"),
    [
        ({}, [3, 4, 0, 1, 0, 2, 0.5]),
        ({"clip": 1.5}, [1.5, 1.5, 0, 1, 0, 1.5, 0.5]),
        ({"clip": math.sqrt(30.25) / 2, "limit": "norm"}, [1.5, 2, 0, 0.5, 0, 1, 0.25]),
    ],
)
def test_clients_count_by_their_limited_losses(name: str, limits: dict[str, object], limited: list[float]) -> None:
    """The norm of the losses is sqrt(30.25); who has none does not count."""
    found = weights_of(name, weighting="fedvsa", **limits)

    assert found == pytest.approx(among((found > 0) & ~np.isnan(LOSSES), np.exp(limited)))
    assert found[4] == 0
    assert (found > 0).sum() > 1


@pytest.mark.parametrize("name", WHOLE)
def test_where_nobody_has_a_usable_loss_model_and_state_stay(name: str) -> None:
    kept = RuleState(name, {"m": np.ones(12)}, 4)
    cohort = whole_round(7, losses=[math.nan] * 7, extras={"state": kept})

    result = get_rule(name, weighting="fedvsa")(cohort)

    assert result.weights.tobytes() == cohort.start.tobytes()
    assert result.flag is not None
    assert result.flag != NO_UPDATE
    assert not result.kept.any()
    assert result.state is (kept if "server-state" in RULES[name].needs else None)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_fedprox_averages_as_fedavg_does(weighting: str) -> None:
    cohort = whole_round(7, samples=SAMPLES)
    ours, plain = (get_rule(name, weighting=weighting)(cohort) for name in ("fedprox", "fedavg"))

    assert ours.weights.tobytes() == plain.weights.tobytes()
    assert ours.share.tolist() == plain.share.tolist()


@pytest.mark.parametrize(
    ("name", "options", "values", "expected"),
    [
        ("fedprox", {}, [1, 2, 3], {"weights": 2.5}),
        ("scaffold", {}, [1, 2, 3], {"weights": 2.5, "c": -4}),  # -(1 + 2 + 3) / (K η) / N
        ("feddyn", {"alpha": 0.5}, [1, 2, 3], {"weights": 4.5, "h": -1}),  # h = -0.5 / 3 * 6, 2.5 - h / 0.5
        ("feddc", {}, [1, 2, 3], {"weights": 4.5, "h_sum": 6, "g": -4}),  # 2.5 + 6 / 3
        ("feddc", {"mode": "paper"}, [1, 2, 3], {"weights": 5.0, "g": -4}),  # Σ p (θ + h), h = θ at first
        ("dnc", {"attackers": 1}, [1, 2, 3, 100], {"weights": 2.5}),
        ("multi-krum", {"attackers": 0}, [1, 2, 3, 100, 200], {"weights": 2.5}),
        ("krum", {"attackers": 1}, [1, 2, 3, 100, 200], {"weights": 2.0}),  # the middle one; its loss counts alone
        ("zeno", {}, [1, 2, 3, -4], {"weights": 1.0, "share": [1 / 8, 2 / 8 / 2, 5 / 8 / 3, 0]}),
        ("geometric-median", {}, [1, 2, 3], {"weights": 3.0}),  # 5 / 8 of the weight is in one point
        ("raf", {}, [1, 2, 3], {"weights": 3.0}),
    ],
)
def test_fedvsas_weights_in_the_rules_of_its_table_9(
    name: str, options: dict[str, object], values: list[float], expected: dict[str, object]
) -> None:
    """Losses 0, ln 2 and ln 5, of which the softmax is 1/8, 2/8 and 5/8; whoever else there is has one of 0."""
    losses = [0.0, math.log(2), math.log(5), 0.0, 0.0][: len(values)]
    steps, rate, reference = np.ones(len(values)), 0.5, np.array([-1.0])
    cohort = line(values, losses=losses, steps=steps, rate=rate, reference=reference)

    result = get_rule(name, weighting="fedvsa", **options)(cohort)

    kept = {} if result.state is None else result.state.arrays
    for what, wanted in expected.items():
        found = kept[what][0] if what in kept else result.share[:, 0] if what == "share" else result.weights[0]
        assert found == pytest.approx(wanted, rel=1e-5), what


def test_nobody_who_is_kept_is_no_weight_at_all() -> None:
    cohort = line([1.0, 2.0])

    for weighting in WEIGHTINGS:
        assert client_share(cohort, WeightedOptions(weighting=weighting), kept=np.zeros(2, bool)).tolist() == [0, 0]


@pytest.mark.parametrize("name", PLAIN)
def test_who_was_dropped_is_named_by_every_rule(name: str) -> None:
    weights = whole_round().weights.copy()
    weights[2, 5] = math.nan

    result = RULES[name](whole_round(weights=weights))

    assert result.dropped == ("c02",)
    assert "c02" not in result.ids
