"""What attackers upload, in numbers worked out by hand; and that the default of `cloud serve` holds against it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from bench.attack_moves import MOVES, View, lies
from tests.recorder import Record

RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[3] / "shared" / "data")) / "gsc"
VIEW = View(
    start=np.array([1.0, 1.0]),
    honest=np.array([[2.0, 1.0], [4.0, 1.0]]),
    own=np.array([[3.0, 1.0], [3.0, 2.0]]),
    flipped=np.array([[0.0, 1.0], [0.0, 3.0]]),
    poisoned=np.array([[1.0, 1.5], [1.0, 1.0]]),
)


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        ("label flip", [[0.0, 1.0], [0.0, 3.0]]),
        ("sign flip", [[-5.0, 1.0], [-5.0, -2.0]]),
        ("scaling", [[-9.0, 1.0], [-9.0, 21.0]]),
        ("inner product", [[1.0 - 1.1 * 2, 1.0]] * 2),
        ("zero model", [[0.0, 0.0]] * 2),
        ("free rider", [[1.0, 1.0]] * 2),
        ("together", [[3.0 - 0.5 * 1.0, 1.0]] * 2),
        ("backdoor", [[1.0, 4.0], [1.0, 1.0]]),
    ],
)
def test_an_attack_uploads_what_it_says(attack: str, expected: list[list[float]]) -> None:
    assert MOVES[attack](VIEW) == pytest.approx(np.array(expected))


def test_a_replacement_makes_the_mean_the_attackers_model() -> None:
    together = np.concatenate([VIEW.honest, MOVES["replacement"](VIEW)])
    assert together.mean(axis=0) == pytest.approx(VIEW.flipped[0])


def test_little_is_enough_stays_within_the_honest_spread() -> None:
    """Ten devices of whom two lie: z is the normal quantile of (8 - 4) / 8, the median: the mean itself."""
    view = View(np.zeros(1), np.arange(8.0)[:, None], *[np.zeros((2, 1))] * 3)
    assert MOVES["ALIE"](view) == pytest.approx(np.array([[3.5], [3.5]]))
    more = View(np.zeros(1), np.arange(7.0)[:, None], *[np.zeros((3, 1))] * 3)
    # (7 - 3) / 7 = 0.571 -> z = 0.180; the standard deviation of 0..6 is 2.
    assert MOVES["ALIE"](more)[0, 0] == pytest.approx(3 - 0.180 * 2, abs=1e-3)


def test_only_liars_lie() -> None:
    assert {attack for attack in MOVES if lies(attack)} == {"flip and lie", "zero and lie"}


def held(rule: str, attacks: Sequence[str], liars: int, record: Record) -> None:
    """Rounds with so many of 20 who attack are within three points of the same without; "" is the rule of serve."""
    pytest.importorskip("onnxruntime", reason="the devices train on it")
    if not RECORDED.is_dir():
        pytest.skip("there is no recorded speech beside this checkout")
    from bench.attacks import make_fleet, play, rule_of

    from auricle_cloud.commands.coordinator_settings import CoordinatorSettings
    from auricle_learning.aggregation.bounded import BoundedRule

    preset = CoordinatorSettings().preset_for(trained=True)
    whole = BoundedRule(rule_of(rule) if rule else preset.method.get_rule())
    fleet = make_fleet(RECORDED, 20, seed=0)
    honest = play(fleet, whole, None, 0, 4, seed=0)
    record("% right without attackers", round(100 * honest.right, 1))
    worst = float("-inf")
    for attack in attacks:
        attacked = play(fleet, whole, attack, liars, 4, seed=0)
        worst = max(worst, 100 * (honest.right - attacked.right))
        record("points of accuracy lost", round(worst, 2))
        assert attacked.right >= honest.right - 0.03, attack


@pytest.mark.reliability("S9", load="a fifth of attackers, each attack: within 3 points of rounds without")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("attack", ["zero and lie", "scaling", "replacement", "sign flip", "flip and lie"])
@pytest.mark.nightly
def test_the_default_of_serve_holds_at_a_fifth_of_attackers(attack: str, record_property: Record) -> None:
    held("", [attack], 4, record_property)


@pytest.mark.reliability("S9", load="10 % sign flip or x100: serve's default, clipping, trimmed mean; within 3 points")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", ["", "norm-clip", "trimmed-mean beta=0.2"], ids=["serve", "clipping", "trimmed mean"])
@pytest.mark.nightly
def test_a_tenth_that_flips_or_scales_costs_at_most_three_points(
    rule: str, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setitem(MOVES, "hundredfold", lambda view: view.start + 100 * (view.own - view.start))
    held(rule, ("sign flip", "hundredfold"), 2, record_property)
