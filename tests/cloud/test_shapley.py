"""Shapley values: toy games with known answers, the axioms, and coalitions' models."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.errors import DataError
from auricle_cloud.detection.coalitions import loss_models, rule_models, subset, worth
from auricle_cloud.detection.shapley import Shapley, Values, shapley
from auricle_learning.aggregation.cohort import BoolArray, Cohort, Float64Array, Layer
from auricle_learning.aggregation.extras import Extras
from auricle_learning.methods import get_rule

RNG = np.random.default_rng(0)


def _solve(players: int, values: Values, **options: object) -> Shapley:
    return shapley([f"k{k:02d}" for k in range(players)], values, np.random.default_rng(0), **options)  # type: ignore[arg-type]


def _additive(worths: list[float]) -> Values:
    return lambda members: members @ np.array(worths)


def _by_permutations(table: dict[tuple[bool, ...], float], players: int) -> list[float]:
    """The definition with all orders written out, independent of the formula with binomials."""
    total = [0.0] * players
    for order in itertools.permutations(range(players)):
        members = [False] * players
        for k in order:
            before = table[tuple(members)]
            members[k] = True
            total[k] += table[tuple(members)] - before
    return [value / math.factorial(players) for value in total]


def test_the_glove_game_has_the_values_of_the_textbook() -> None:
    """Player 0 has a left glove, 1 and 2 a right one each; a pair is worth 1: 2/3, 1/6, 1/6."""
    found = _solve(3, lambda members: (members[:, 0] & (members[:, 1] | members[:, 2])).astype(float))

    assert found.phi == pytest.approx([2 / 3, 1 / 6, 1 / 6], abs=1e-15)
    assert found.permutations is None and found.evaluations == 8
    assert (found.empty, found.everyone, found.bad) == (0.0, 1.0, ())


def test_two_players_by_hand() -> None:
    """v(∅) = 0.5, v(0) = 0.7, v(1) = 0.2, v(01) = 0.3: φ0 = (0.2 + 0.1)/2, φ1 = (-0.3 - 0.4)/2."""
    table = np.array([0.5, 0.7, 0.2, 0.3])

    found = _solve(2, lambda members: table[members @ [1, 2]])

    assert found.phi == pytest.approx([0.15, -0.35])
    assert found.bad == ("k01",)
    assert abs(found.efficiency_gap) < 1e-15
    told = _solve(2, _additive([0.5, -0.5])).explain()
    assert (told["method"], told["bad"], told["phi"]) == ("exact", ["k01"], {"k00": 0.5, "k01": -0.5})
    assert np.ptp(_solve(4, lambda members: np.sqrt(members.sum(axis=1))).phi) < 1e-15, "equal players"


@given(st.integers(1, 5), st.integers(0, 2**32))
@settings(max_examples=30)
def test_the_exact_values_are_the_mean_over_all_orders(players: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 101, 2**players) / 100
    table = {members: values[place] for place, members in enumerate(itertools.product((False, True), repeat=players))}

    found = _solve(players, lambda members: np.array([table[tuple(row)] for row in members.tolist()]))

    assert found.phi == pytest.approx(_by_permutations(table, players), abs=1e-12)
    assert found.efficiency_gap == pytest.approx(0, abs=1e-12)


def test_a_player_who_changes_nothing_has_exactly_nothing_and_is_not_bad() -> None:
    """Sums that cancel leave 1e-17 behind; an exact zero must not be taken for harm (A43)."""
    values = np.random.default_rng(3).integers(0, 997, 2**9) / 997

    found = _solve(10, lambda members: values[members[:, :9] @ (1 << np.arange(9))])

    assert found.phi[9] == 0.0
    assert "k09" not in found.bad
    assert found.evaluations == 1024


def test_monte_carlo_finds_the_values_of_an_additive_game_without_error() -> None:
    worths = [0.1] * 11 + [-0.6]

    found = _solve(12, _additive(worths), tolerance=0.0)

    assert found.permutations == 50
    assert found.phi == pytest.approx(worths)
    assert found.error == pytest.approx(0, abs=1e-12)
    assert found.bad == ("k11",)


def test_monte_carlo_draws_its_orders_from_the_generator_it_was_given() -> None:
    """The literal algorithm, order after order, on the same permutations."""
    values = np.random.default_rng(5).random(2**12)

    def game(members: BoolArray) -> Float64Array:
        return values[members @ (1 << np.arange(12))] * 0.2 + members.mean(axis=1) ** 0.1

    rng = np.random.default_rng(0)
    marginals = []
    for _ in range(50):
        order = rng.permutation(12)
        everyone = game(np.ones((1, 12), np.bool_))[0]
        members, gains = np.zeros(12, np.bool_), np.zeros(12)
        now = game(members[None])[0]
        for k in order:
            if abs(everyone - now) < 0.05:
                break
            members[k] = True
            then = game(members[None])[0]
            gains[k], now = then - now, then
        marginals.append(gains)

    found = _solve(12, game, tolerance=0.05)

    assert found.phi == pytest.approx(np.mean(marginals, axis=0), abs=1e-12)
    assert found.error == pytest.approx(np.std(marginals, axis=0, ddof=1) / math.sqrt(50))
    assert found.evaluations < 50 * 11
    assert abs(found.efficiency_gap) < 0.05


def test_monte_carlo_blames_only_who_is_negative_by_more_than_a_standard_error() -> None:
    """One of eleven harms in half of the orders by 0.1 and helps in the others by a little less."""

    def game(members: BoolArray) -> Float64Array:
        early = members[:, 0] & ~members[:, 1]
        return np.where(early, -1.0, 0.0) + np.where(members[:, 0] & members[:, 1], 0.9, 0.0) + members[:, 2] * 0.5

    found = _solve(11, game, tolerance=0.0)
    phi, error = found.phi[0], found.error[0]

    assert found.error[0] > 0.01
    assert ("k00" in found.bad) is bool(phi + error < 0)
    assert found.error[2] < 1e-12


def test_nobody_one_client_and_a_round_that_changed_nothing_are_games_too() -> None:
    still = _solve(20, lambda members: np.full(len(members), 0.75))
    assert (still.bad, still.evaluations) == ((), 2)
    assert _solve(0, lambda members: np.full(len(members), 0.5)).phi.shape == (0,)
    assert _solve(1, _additive([-0.25])).bad == ("k00",)


def test_no_coalition_is_asked_for_twice_and_never_more_than_a_batch_at_once() -> None:
    asked: list[tuple[bool, ...]] = []

    def game(members: BoolArray) -> Float64Array:
        assert len(members) <= 64
        asked.extend(map(tuple, members.tolist()))
        return members @ np.linspace(-1, 1, members.shape[1])

    for players in (8, 13):
        asked.clear()
        told: list[tuple[int, int]] = []
        _solve(players, game, progress=lambda done, most, told=told: told.append((done, most)))
        assert len(set(asked)) == len(asked)
        assert told == sorted(told) and (told[-1] == (256, 256) or players > 8)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_refused(wrong: float) -> None:
    with pytest.raises(DataError, match="not one finite number"):
        _solve(2, lambda members: np.full(len(members), wrong))


def _cohort(losses: list[float], size: int = 7) -> Cohort:
    return Cohort.build(
        ids=[f"k{k:02d}" for k in range(len(losses))],
        weights=np.random.default_rng(2).standard_normal((len(losses), size)).astype(np.float32),
        samples=np.arange(1, len(losses) + 1),
        losses=losses,
        start=np.full(size, 0.5, np.float32),
        layers=[Layer("a", (slice(0, 3),)), Layer("b", (slice(3, size),))],
    )


def test_a_coalitions_model_is_the_softmax_inside_it_by_hand() -> None:
    cohort = _cohort([math.log(2), math.log(3), math.log(5)])

    models = loss_models(cohort)(np.array([[True, True, False], [False, False, True], [False, False, False]]))

    assert models[0] == pytest.approx(0.4 * cohort.weights[0] + 0.6 * cohort.weights[1], rel=1e-6)
    assert np.array_equal(models[1], cohort.weights[2])
    assert np.array_equal(models[2], cohort.start)
    lacking = loss_models(_cohort([1.0, math.nan, 2.0]))
    with_it, without, alone = lacking(np.array([[True, True, True], [True, False, True], [False, True, False]]))
    assert np.array_equal(with_it, without) and np.array_equal(alone, cohort.start), "a client without a loss"
    others = rule_models(cohort, get_rule("fedavg"))(np.array([[True, False, True], [False, False, False]]))
    assert others[0] == pytest.approx(0.25 * cohort.weights[0] + 0.75 * cohort.weights[2], rel=1e-6)
    assert np.array_equal(others[1], cohort.start)


@pytest.mark.parametrize("limit", ["clamp", "norm"])
def test_everybodys_model_is_the_rounds(limit: str) -> None:
    cohort = _cohort([0.5, 2.0, 9.0, math.nan, math.inf])
    everyone = np.ones((1, 5), np.bool_)

    made = loss_models(cohort, clip=3.0, limit=limit)(everyone)

    assert made[0] == pytest.approx(get_rule("fedvsa", clip=3.0, limit=limit)(cohort).weights, abs=1e-6)


def test_what_a_coalition_is_worth_is_the_accuracy_of_its_model_and_the_empty_one_is_the_model_before() -> None:
    cohort = _cohort([1.0, 2.0])
    seen: list[np.ndarray] = []

    def accuracy(models: np.ndarray) -> Float64Array:
        seen.append(models)
        return models.sum(axis=1).astype(np.float64)

    game = worth(cohort, loss_models(cohort), accuracy)

    assert game(np.array([[False, False], [True, False]])) == pytest.approx([3.5, cohort.weights[0].sum()], rel=1e-6)
    assert np.array_equal(seen[0][0], cohort.start) and len(seen) == 1, "64 MB hold both"


def test_a_coalition_has_what_its_members_sent_beside_their_weights() -> None:
    cohort = _cohort([1.0, 2.0, 3.0])
    told = replace(cohort, extras=Extras(steps=np.array([4.0, 5.0, 6.0])), registered=np.array([7.0, 8.0, 9.0]))

    part = subset(told, np.array([True, False, True]))

    assert part.extras.steps is not None and part.registered is not None
    assert (part.extras.steps.tolist(), part.registered.tolist()) == ([4.0, 6.0], [7.0, 9.0])
    assert part.ids == (cohort.ids[0], cohort.ids[2]) and part.losses.tolist() == [1.0, 3.0]
    assert part.samples.tolist() == cohort.samples[[0, 2]].tolist()
    assert np.array_equal(part.weights, cohort.weights[[0, 2]])
    assert subset(cohort, np.array([True, False, True])).registered is None
