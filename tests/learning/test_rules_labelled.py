"""Zeno++, FedLAW and FedRPO on numbers worked out by hand, against plain readings, and their invariances."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import TARGET, agrees, in_one_layer, line, whole_round

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Cohort, CohortError
from auricle_learning.aggregation.extras import Extras
from auricle_learning.aggregation.rules.relaxed_pareto import min_norm_alpha, relaxed_pareto
from auricle_learning.methods import get_rule


def plane(gradients: Any, samples: Any = None, **extras: Any) -> Cohort:
    """Clients whose g_k = w^t - w_k are given, w^t = 0, in float64."""
    found = np.asarray(gradients, np.float64)
    weighed = {} if samples is None else {"samples": samples}
    return in_one_layer(-found, **weighed, extras=Extras(**extras))


SCORES = [4 - 0.004, -0.004, -4 - 0.004, 2.4 - 0.004]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"kept": [1, 0, 0, 1], "weights": [-1.6, -0.8], "score": SCORES}),
        ({"epsilon": 0.1}, {"kept": [1, 1, 0, 1]}),
        ({"gamma": 2.0}, {"kept": [1, 0, 0, 1], "weights": [-3.2, -1.6]}),
        ({"rho": 0.7}, {"kept": [1, 0, 0, 0], "weights": [-2.0, 0.0]}),
        ({"gamma": 2.0, "epsilon": 0.0019}, {"kept": [1, 0, 0, 1], "weights": [-3.2, -1.6]}),
        ({"gamma": 2.0, "epsilon": 0.0021}, {"kept": [1, 1, 0, 1], "weights": [-3.2 * 2 / 3, -3.6 * 2 / 3]}),
        ({"gamma": 1.0, "epsilon": 4.005}, {"kept": [1] * 4, "weights": [-1.2 / 4, -3.6 / 4]}),
    ],
)
def test_zeno_takes_who_goes_along_and_applies_normalised_updates(options: Any, expected: dict[str, Any]) -> None:
    """g_r = (2, 0): gamma times 4, 0, -4 and 2.4, less 4 rho, has to be at least -gamma epsilon.

    (10, 0) becomes (2, 0), (0, 3) scores -4 rho, (-1, 0) is refused, (3, 4) becomes (1.2, 1.6).
    """
    cohort = plane([[10, 0], [0, 3], [-1, 0], [3, 4]], reference=np.array([2.0, 0.0]))

    agrees(get_rule("zeno", **options)(cohort), rtol=1e-7, **expected)


def bowl(w: Any) -> tuple[float, Any]:
    return 0.0, w - np.array([-1.0, 0.0])


def test_zeno_trains_at_its_own_rate_and_has_no_use_for_who_did_not_move() -> None:
    cohort = plane([[10, 0], [0, 0]], objectives=(bowl,), rate=0.5)

    result = get_rule("zeno", lr=0.25, epsilon=1.0)(cohort)

    np.testing.assert_allclose(result.weights, [-0.25, 0.0])
    assert result.kept[:, 0].tolist() == [True, False]
    twice = get_rule("zeno", epochs=2)(plane([[10, 0], [-1, 0]], objectives=(bowl,), rate=0.5))
    np.testing.assert_allclose(twice.weights, [-0.75, 0.0])  # two steps of a half: 0.5, then 0.25


def test_a_scaled_attack_counts_no_more_for_zeno() -> None:
    reference, gradients = np.array([1.0, 1.0]), np.array([[1.0, 0.5], [0.2, 1.0]])
    ours = get_rule("zeno")(plane(gradients, reference=reference))

    scaled = get_rule("zeno")(plane(gradients * [[1e6], [1]], reference=reference))

    np.testing.assert_allclose(scaled.weights, ours.weights, rtol=1e-6)


def test_zeno_keeps_the_model_where_nobody_goes_along() -> None:
    result = get_rule("zeno")(plane([[-1.0, 0.0], [0.0, 0.0]], reference=np.array([1.0, 0.0])))

    assert result.weights.tolist() == [0.0, 0.0]
    assert result.flag == "nobody's update goes with the coordinator's own: the model is unchanged"
    assert result.score is not None
    np.testing.assert_allclose(result.score, [-1.001, 0.0])  # ⟨g_r, g̃⟩ - ρ ‖g̃‖², and of who did not move none
    assert result.score_of == "Zeno++ score: descent along the coordinator's own update, less the candidate's length"
    assert list((result.explain()[0]["score"] or {}).values()) == pytest.approx([-1.001, 0.0])


@pytest.mark.parametrize("name", ["zeno", "fedlaw"])
def test_without_labelled_clips_they_say_so(name: str) -> None:
    with pytest.raises(CohortError, match="needs labelled clips"):
        get_rule(name)(plane([[1.0, 0.0]], rate=0.1))


def test_fedlaw_goes_down_with_the_gradient_of_the_paper() -> None:
    result = get_rule("fedlaw")(whole_round(dtype=np.float64))

    cohort = whole_round(dtype=np.float64)
    p = cohort.samples / cohort.samples.sum()
    x, y, m, v = np.log(p), 0.0, np.zeros(8), np.zeros(8)
    for step in range(1, 21):
        lam, gamma = np.exp(x) / np.exp(x).sum(), np.exp(y)
        away = gamma * lam @ cohort.weights - TARGET
        s = cohort.weights @ away
        slope = np.append(gamma * lam * (s - lam @ s), gamma * lam @ s)
        m, v = 0.5 * m + 0.5 * slope, 0.999 * v + 0.001 * slope**2
        change = 0.01 * (m / (1 - 0.5**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        x, y = x - change[:-1], y - change[-1]
    lam, gamma = np.exp(x) / np.exp(x).sum(), np.exp(y)
    np.testing.assert_allclose(result.weights, gamma * lam @ cohort.weights, rtol=1e-7)
    np.testing.assert_allclose(result.score, lam, rtol=1e-7)
    start = p @ cohort.weights
    assert np.linalg.norm(result.weights - TARGET) < np.linalg.norm(start - TARGET)


def test_the_gradient_of_fedlaw_is_that_of_differences() -> None:
    from auricle_learning.aggregation.rules.fedlaw import _combined, _of

    cohort, values = whole_round(4, np.float64), np.array([0.1, -0.4, 0.3, 0.0, 0.2])
    objective = cohort.extras.objectives[0]
    slope = _of(cohort, objective)(values)
    for place, unit in enumerate(np.eye(5) * 1e-6):
        up, down = (objective(_combined(cohort, values + way * unit))[0] for way in (1, -1))
        assert slope[place] == pytest.approx((up - down) / 2e-6, rel=1e-5)


def test_fedlaw_after_no_epoch_is_fedavg_and_rates_fall_by_steps() -> None:
    cohort = whole_round(dtype=np.float64)
    np.testing.assert_allclose(get_rule("fedlaw", epochs=0)(cohort).weights, get_rule("fedavg")(cohort).weights)
    halved = get_rule("fedlaw", epochs=2, step_size=1, decay=1e-9)(cohort)
    np.testing.assert_allclose(halved.weights, get_rule("fedlaw", epochs=1)(cohort).weights, rtol=1e-7)


def test_fedrpo_by_hand() -> None:
    # ĝ = (0, 1), (-1, 0), own (1, 0) with w = ¼, ½, ¼: progress is d · (-¼, ¼). The own one is labelled, so d_x ≥ 0,
    # and the best is d = (0, 1), of the length ¼·2 + ½·3 + ¼·1.
    cohort = plane([[0, 2], [-3, 0]], [1, 2], reference=np.array([1.0, 0.0]), reference_samples=1)

    result = get_rule("fedrpo", c=-1.0, lr=1.0)(cohort)

    np.testing.assert_allclose(result.weights, [0.0, -2.25], atol=1e-9)
    relaxed = get_rule("fedrpo", c=-1.0, lr=1.0)(plane([[0, 2], [-3, 0]], [1, 2]))
    np.testing.assert_allclose(relaxed.weights, [(2 / 3 + 2), 0.0], atol=1e-9)  # one single client


def test_fedrpo_can_average_clients_and_coordinator_instead() -> None:
    """Clients moved by (2, 0) and (0, -4) with 1 and 2 clips, the coordinator by (-8, 0) with 1: (-6, -8) / 4."""
    own = {"reference": np.array([-8.0, 0.0]), "reference_samples": 1.0}
    result = get_rule("fedrpo", combine="average", lr=1.0)(plane([[2, 0], [0, -4]], [1, 2], **own))
    assert np.abs(result.weights).tolist() == pytest.approx([1.5, 2.0])


def test_fedrpo_weighs_clients_alike_or_the_coordinator_as_an_average_client() -> None:
    # As above with w = ⅓, ⅓, ⅓: length (2 + 3 + 1) / 3; and with the mean of 1 and 2 for the own: w = 2/9, 4/9, 3/9.
    alike = get_rule("fedrpo", c=-1.0, lr=1.0, weighting="uniform")
    own = {"reference": np.array([1.0, 0.0])}

    result = alike(plane([[0, 2], [-3, 0]], [1, 2], **own, reference_samples=1))

    np.testing.assert_allclose(result.weights, [0.0, -2.0], atol=1e-9)
    assert result.score is not None
    np.testing.assert_allclose(result.score, [1.0, 0.0], atol=1e-9)
    average = get_rule("fedrpo", c=-1.0, lr=1.0)(plane([[0, 2], [-3, 0]], [1, 2], **own))
    np.testing.assert_allclose(average.weights, [0.0, -19 / 9], atol=1e-9)


def test_fedrpo_goes_the_coordinators_way_where_its_clips_are_many() -> None:
    # w = 0.1, 0.1, 0.8: of (1, 0), (0, -1) and its own (0, 1) the last makes the most progress.
    own = {"reference": np.array([0.0, 1.0]), "reference_samples": 8}

    result = get_rule("fedrpo", c=-1.0, lr=1.0)(plane([[2, 0], [0, -3]], [1, 1], **own))

    assert result.direction is not None
    np.testing.assert_allclose(result.direction.angles, [90, 180], atol=1e-5)
    assert result.direction.coordinator == pytest.approx(0, abs=1e-5)
    assert result.direction.coordinator_weight == pytest.approx(1)


@pytest.mark.parametrize(("labelled", "x"), [([0.0, 0.0], 7 / 3), ([1.0, 0.0], 0.0)])
def test_fedrpo_never_goes_against_a_client_with_labels(labelled: list[float], x: float) -> None:
    """Two that pull apart, the stronger without labels: alone it decides, and it may not go against the other."""
    rule = get_rule("fedrpo", c=-1.0, lr=1.0)

    result = rule(plane([[1, 0], [-3, 0]], [1, 2], labelled=np.array(labelled)))

    np.testing.assert_allclose(result.weights, [x, 0.0], atol=1e-9)


def test_fedrpo_trains_on_the_coordinators_clips_by_its_own_rate() -> None:
    # Steps of ¼ towards (-1, 0): 0, -¼, -7/16. Both go along (1, 0), with gradients of 1 / ½ and 7/16 / ¼.
    rule = get_rule("fedrpo", lr=1.0, epochs=2, server_lr=0.25)

    result = rule(plane([[1, 0]], objectives=(bowl,), rate=0.5))

    np.testing.assert_allclose(result.weights, [-(2 + 7 / 4) / 2, 0.0], atol=1e-9)


@pytest.mark.parametrize("combine", ["pareto", "average"])
@pytest.mark.parametrize("server_lr", [0.125, 0.5, 2.0])
def test_fedrpo_is_the_same_whatever_the_coordinator_trains_at(combine: str, server_lr: float) -> None:
    """The gradients are (4, 0), (0, -6) and (-2, 3), the last the coordinator's: its update is that times its rate."""
    own = {"reference": server_lr * np.array([-2.0, 3.0]), "reference_samples": 1}
    rule = get_rule("fedrpo", combine=combine, server_lr=server_lr)

    result = rule(plane([[2, 0], [0, -3]], [1, 1], **own, rate=0.5))

    usual = {"reference": np.array([-1.0, 1.5]), "reference_samples": 1}
    same = get_rule("fedrpo", combine=combine)(plane([[2, 0], [0, -3]], [1, 1], **usual, rate=0.5))
    np.testing.assert_allclose(result.weights, same.weights, atol=1e-12)
    assert np.abs(result.weights).sum() > 0
    if combine == "average":  # 0.05 · mean of the gradients, downhill
        np.testing.assert_allclose(result.weights, -0.05 * np.array([2.0, -3.0]) / 3, atol=1e-12)


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
def test_a_step_of_fedrpo_in_units_of_the_rate_is_as_long_as_the_clients(rate: float) -> None:
    """Clients moved by 2 and 3 with 1 and 2 clips, all ways allowed: the second one's way, (2 + 2 · 3) / 3 far."""
    cohort = plane([[0, 2], [-3, 0]], [1, 2], rate=rate)

    one, half, usual = (get_rule("fedrpo", c=-1.0, **each)(cohort) for each in ({"step": 1.0}, {"step": 0.5}, {}))

    np.testing.assert_allclose(one.weights, [8 / 3, 0.0], atol=1e-9)
    np.testing.assert_allclose(half.weights, [4 / 3, 0.0], atol=1e-9)
    np.testing.assert_allclose(usual.weights, [0.05 / rate * 8 / 3, 0.0], atol=1e-9)


@pytest.mark.parametrize("c", [0.1, -1.1, True])
def test_a_relaxation_that_is_none_is_refused(c: Any) -> None:
    with pytest.raises(SettingsError, match="from -1 to 0"):
        get_rule("fedrpo", c=c)


def test_where_the_linear_program_has_no_solution_the_least_norm_point_is_taken() -> None:
    units = np.array([[1.0, 0], [-0.8, 0.6]])

    alpha = relaxed_pareto(units @ units.T, np.array([0.9, 0.1]), np.zeros(2, bool), 2.0)

    np.testing.assert_allclose(alpha, [0.5, 0.5])


def best_on_a_grid(cosines: Any, priority: Any, labelled: Any, c: float) -> float:
    """The largest objective over a grid of the simplex of three."""
    least, best = np.where(labelled, 0.0, c), -np.inf
    for i, j in itertools.product(range(201), repeat=2):
        alpha = np.array([i, j, 200 - i - j]) / 200
        if alpha[2] >= 0 and (cosines @ alpha >= least - 1e-12).all():
            best = max(best, float(alpha @ cosines @ priority))
    return best


@pytest.mark.parametrize("c", [0.0, -0.1, -0.5, -1.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_linear_program_is_solved(c: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = rng.standard_normal((3, 4))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    cosines, priority, labelled = units @ units.T, np.array([0.2, 0.5, 0.3]), np.array([True, False, False])

    alpha = relaxed_pareto(cosines, priority, labelled, c)

    assert alpha.sum() == pytest.approx(1)
    assert (alpha >= 0).all()
    assert (cosines @ alpha >= np.where(labelled, 0.0, c) - 1e-7).all()
    assert alpha @ cosines @ priority >= best_on_a_grid(cosines, priority, labelled, c) - 1e-7


def test_full_relaxation_is_one_client() -> None:
    units = np.array([[1.0, 0], [0.6, 0.8], [0, 1.0]])
    alpha = relaxed_pareto(units @ units.T, np.full(3, 1 / 3), np.zeros(3, bool), -1.0)

    np.testing.assert_allclose(alpha, [0, 1, 0], atol=1e-9)


def test_the_least_norm_point_goes_with_everybody() -> None:
    units = np.array([[1.0, 0], [-0.8, 0.6]])
    alpha = min_norm_alpha(units @ units.T)

    point = alpha @ units
    np.testing.assert_allclose(alpha, [0.5, 0.5])
    assert (units @ point >= point @ point - 1e-12).all()


def test_identical_clients_step_by_their_gradient() -> None:
    result = get_rule("fedrpo")(plane([[3.0, 4.0]] * 3, rate=0.1))

    np.testing.assert_allclose(result.weights, [-0.05 * 30, -0.05 * 40])
    assert result.score is not None
    assert result.score.sum() == pytest.approx(1)


def test_scaling_one_gradient_changes_the_length_and_not_the_direction() -> None:
    gradients = np.array([[1.0, 0.2], [0.3, 1.0], [-0.2, 0.9]])
    ours = get_rule("fedrpo")(plane(gradients, labelled=np.array([1.0, 0.0, 0.0])))

    theirs = get_rule("fedrpo")(plane(gradients * [[1], [50], [1]], labelled=np.array([1.0, 0.0, 0.0])))

    cosine = ours.weights @ theirs.weights / np.linalg.norm(ours.weights) / np.linalg.norm(theirs.weights)
    assert cosine == pytest.approx(1)


def test_a_client_without_an_update_is_left_out_and_nobody_with_one_keeps_the_model() -> None:
    some = get_rule("fedrpo")(plane([[1.0, 0.0], [0.0, 0.0]], [1, 1]))
    assert some.kept[:, 0].tolist() == [True, False]
    np.testing.assert_allclose(some.weights, [-0.05, 0.0])
    assert get_rule("fedrpo")(line([0.0, 0.0])).flag == "no update has a direction: the model is unchanged"
