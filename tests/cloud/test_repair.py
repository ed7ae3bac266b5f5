"""Repair: the round without the bad clients, by aggregating again and by a hotfix."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.cloud.model_replacement import flipped, replacement

from auricle.errors import SettingsError
from auricle_cloud.detection.coalitions import subset
from auricle_cloud.detection.repair import hotfix, reaggregate
from auricle_learning.aggregation.cohort import Aggregate, Cohort, CohortError, Layer
from auricle_learning.aggregation.rules.fedvsa import limit_losses, softmax_share
from auricle_learning.aggregation.server_optimizer import KINDS, OptimizerSettings, OptimizerState, first_state, step
from auricle_learning.methods import get_rule

NONE = OptimizerSettings()
FEDAVG, FEDVSA = get_rule("fedavg"), get_rule("fedvsa")
RULES: list[Callable[[Cohort], Aggregate]] = [FEDAVG, FEDVSA, get_rule("lpa+fedvsa")]


def _cohort(clients: int = 5, size: int = 6) -> Cohort:
    rng = np.random.default_rng(4)
    return Cohort.build(
        ids=[f"k{k}" for k in range(clients)],
        weights=rng.standard_normal((clients, size)).astype(np.float32),
        samples=rng.integers(1, 50, clients),
        losses=rng.random(clients) * 2,
        start=rng.standard_normal(size).astype(np.float32),
        layers=[Layer("a", (slice(0, 2), slice(4, size))), Layer("b", (slice(2, 4),))],
    )


def test_aggregating_again_is_the_round_of_those_who_are_kept() -> None:
    cohort = _cohort()
    kept = [0, 2, 4]
    share = np.exp(cohort.losses[kept]) / np.exp(cohort.losses[kept]).sum()

    repair = reaggregate(cohort, {"k1", "k3"}, FEDVSA, NONE, None)

    assert repair.weights == pytest.approx(share @ cohort.weights[kept], rel=1e-6)
    assert (repair.kept, repair.removed) == (("k0", "k2", "k4"), ("k1", "k3"))
    assert repair.aggregate.ids == repair.kept
    assert repair.sentence == "The model was aggregated again from 3 of 5 clients."


def test_a_hotfix_takes_the_weighted_updates_off_and_never_the_weights() -> None:
    """By hand: w - τ p_1 (w_1 - w^{t-1})."""
    cohort = _cohort()
    aggregate = FEDAVG(cohort)
    share = cohort.samples / cohort.samples.sum()
    expected = aggregate.weights - 0.5 * share[1] * (cohort.weights[1] - cohort.start)

    repair = hotfix(cohort, aggregate, {"k1"}, NONE, None, tau=0.5)

    assert repair.weights == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_a_full_hotfix_leaves_the_others_updates_with_the_weights_they_had(rule: Callable[[Cohort], Aggregate]) -> None:
    cohort = _cohort(12)
    aggregate = rule(cohort)
    expected = cohort.start.astype(np.float64)
    for k in range(2, 12):
        for column, layer in enumerate(cohort.layers):
            for span in layer.slices:
                expected[span] += aggregate.share[k, column] * (cohort.weights[k, span] - cohort.start[span])

    repair = hotfix(cohort, aggregate, cohort.ids[:2], NONE, None)

    assert repair.removed == cohort.ids[:2]
    assert repair.weights == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_without_the_bad_clients_the_round_is_as_if_they_had_never_been_there(
    rule: Callable[[Cohort], Aggregate], kind: str
) -> None:
    """Model and optimizer go on from where both stood before the round, whatever the server's optimizer is."""
    cohort, server = _cohort(12), OptimizerSettings(kind=kind, lr=0.1)
    rng = np.random.default_rng(0)
    before = OptimizerState(m=rng.random(6), v=rng.random(6), step=3)
    honest = rule(subset(cohort, np.array([client not in ("k3", "k7") for client in cohort.ids])))
    state, due = step(before, cohort.start, honest.weights, server)

    repair = reaggregate(cohort, {"k3", "k7"}, rule, server, before)

    assert repair.weights == pytest.approx(due, abs=1e-6)
    assert repair.optimizer is not None
    if kind != "none":
        assert repair.optimizer.step == 4
        assert np.array_equal(repair.optimizer.m, state.m) and np.array_equal(repair.optimizer.v, state.v)


def test_the_first_round_begins_with_a_fresh_optimizer() -> None:
    cohort, server = _cohort(), OptimizerSettings(kind="adam")
    honest = FEDAVG(subset(cohort, np.array([False, True, True, True, True])))

    repair = reaggregate(cohort, {"k0"}, FEDAVG, server, None)

    due = step(first_state(6, server), cohort.start, honest.weights, server)[1]
    assert repair.weights == pytest.approx(due, abs=1e-6)


@pytest.mark.parametrize("kind", ["none", "adam"])
def test_when_nobody_is_kept_the_model_before_the_round_stands_again(kind: str) -> None:
    cohort, server = _cohort(), OptimizerSettings(kind=kind)
    before = first_state(6, server)

    for repair in (
        reaggregate(cohort, set(cohort.ids), FEDVSA, server, before),
        hotfix(cohort, FEDVSA(cohort), set(cohort.ids), server, before),
    ):
        assert np.array_equal(repair.weights, cohort.start)
        assert repair.optimizer is before
        assert "Nobody" in repair.sentence


def test_nobody_bad_changes_nothing() -> None:
    cohort = _cohort()

    for repair in (
        reaggregate(cohort, (), FEDVSA, NONE, None),
        hotfix(cohort, FEDVSA(cohort), (), NONE, None),
    ):
        assert repair.weights == pytest.approx(FEDVSA(cohort).weights, abs=1e-7)
        assert repair.removed == ()


def test_who_took_no_part_cannot_be_left_out() -> None:
    with pytest.raises(CohortError, match='"k9"'):
        reaggregate(_cohort(), {"k9"}, FEDAVG, NONE, None)


def test_a_hotfix_wants_a_sensible_strength_and_the_rounds_own_aggregate() -> None:
    cohort = _cohort()

    with pytest.raises(SettingsError, match="tau"):
        hotfix(cohort, FEDAVG(cohort), {"k0"}, NONE, None, tau=-1)
    with pytest.raises(CohortError, match="not one of this round"):
        hotfix(cohort, FEDAVG(_cohort(4)), {"k0"}, NONE, None)


@pytest.mark.parametrize("rule", ["fedavg", "fedvsa"])
def test_model_replacement_makes_the_aggregate_what_the_attacker_wants(rule: str) -> None:
    """Eq. 10, and after the repair the attack is gone."""
    cohort = _cohort(8)
    wanted = np.linspace(-3, 3, 6)
    if rule == "fedavg":
        share = cohort.samples / cohort.samples.sum()
    else:
        share = softmax_share(limit_losses(cohort.losses, clip=5.0, limit="clamp"), np.ones(8, np.bool_))
    uploads = cohort.weights.copy()
    others = np.arange(8) != 5
    uploads[5] = replacement(cohort.start, wanted, float(share[5]), uploads[others], share[others])
    same = {name: getattr(cohort, name) for name in ("ids", "samples", "losses", "start", "layers")}
    attacked = Cohort.build(weights=uploads, **same)

    poisoned = get_rule(rule)(attacked)
    repair = reaggregate(attacked, {"k5"}, get_rule(rule), NONE, None)

    assert poisoned.weights == pytest.approx(wanted, abs=1e-4)
    assert repair.weights == pytest.approx(get_rule(rule)(subset(cohort, others)).weights, abs=1e-6)


def test_an_attacker_who_does_not_know_the_others_misses_by_their_drift() -> None:
    start, wanted = np.zeros(3, np.float32), np.array([1.0, 2.0, 3.0])
    benign, share = np.array([[1.0, 0.0, -1.0]], np.float32), np.array([0.75])

    upload = replacement(start, wanted, 0.25)

    assert 0.25 * upload + share @ benign == pytest.approx(wanted + share @ benign)
    assert math.isclose(float(upload[0]), 4.0)


def test_flipped_labels_leave_no_label_as_it_was() -> None:
    assert flipped(np.arange(4), 4).tolist() == [3, 2, 1, 0]
    assert flipped(np.arange(5), 5).tolist() == [4, 3, 3, 1, 0]
