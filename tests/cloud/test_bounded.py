"""No device passes a bound on its share, whatever it says of itself; with numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import PLAIN

from auricle.errors import SettingsError
from auricle_cloud.detection.coalitions import rule_models
from auricle_cloud.operations.operations import Operations
from auricle_cloud.rounds.read_cohort import by_device
from auricle_learning.aggregation.bounded import TWO, BoundedRule
from auricle_learning.aggregation.caps import HALF, bound, cap_losses, cap_samples, ceiling
from auricle_learning.aggregation.cohort import Aggregate, Bounded, Cohort, Float64Array, Layer
from auricle_learning.aggregation.extras import Extras
from auricle_learning.aggregation.rules.lpa import lpa
from auricle_learning.aggregation.rules.pruning import PruningOptions
from auricle_learning.methods import Rule, get_rule

LAYERS = (Layer("conv", (slice(0, 2),)), Layer("head", (slice(2, 6),)))
UNKNOWN = math.nan


def cohort(rows: list[list[float]], samples: list[float], losses: list[float] | None = None, **more: Any) -> Cohort:
    given = {"ids": [f"dev-{k:02d}" for k in range(len(rows))], "samples": samples, "losses": losses, **more}
    return Cohort.build(weights=np.array(rows, np.float32), start=np.zeros(6, np.float32), layers=LAYERS, **given)


def honest(count: int, seed: int = 0) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return (1.0 + 0.1 * rng.standard_normal((count, 6))).tolist()


def largest(aggregate: Aggregate) -> float:
    return float(aggregate.share.max())


def test_a_lie_about_samples_does_not_take_over_a_round_of_eleven() -> None:
    """The liar is one whom LPA prunes in no layer: neither the nearest nor the farthest."""
    rows = honest(11)
    liar = int(get_rule("lpa")(cohort(rows, [100.0] * 11)).kept.all(axis=1).argmax())
    lied = cohort(rows, [1e7 if k == liar else 100.0 for k in range(11)])

    assert largest(get_rule("lpa")(lied)) > 0.999, "what the rule computes is not changed"
    bounded = BoundedRule(get_rule("lpa"))(lied)

    counting = (bounded.share > 0).sum(axis=0)
    assert (bounded.share <= 3 / counting * (1 + 1e-9)).all()
    assert np.allclose(bounded.share.sum(axis=0), 1)
    # 3 / 11 of the sum: (3/11 * 1000) / (1 - 3/11) = 375, and three times the median is 300.
    assert bounded.bounded[0] == Bounded(f"dev-{liar:02d}", "samples", 1e7, 300.0)


def test_a_zero_model_does_not_become_the_global_one_with_six_devices() -> None:
    rows = [*honest(5), [0.0] * 6]
    lied = cohort(rows, [40.0] * 5 + [1e7])
    alone = get_rule("lpa")(lied)
    made = BoundedRule(get_rule("lpa"))(lied)
    assert np.abs(alone.weights).max() < 1e-3, "the rule alone takes the zeros"
    assert np.abs(made.weights - 1).max() < 0.2
    assert (made.pruned[5] == 1).all(), "the farthest fifth is left out, at least one device"
    assert "the 2 farthest devices of 6 did not count" in made.warnings[0]


@pytest.mark.parametrize(("far", "counted"), [(2.0, 2.0), (100.0, 2.0)])
def test_of_three_devices_nobody_is_left_out_and_a_long_update_is_shortened(far: float, counted: float) -> None:
    rows = [[1.0, 0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0, 0], [0, 0, far, 0, 0, 0]]
    made = BoundedRule(get_rule("lpa", prune_low=0.0, prune_high=0.3))(cohort(rows, [10.0] * 3))

    assert made.weights.tolist() == pytest.approx([1 / 3, 1 / 3, counted / 3, 0, 0, 0])
    assert made.kept.all()
    assert made.bounded == ((Bounded("dev-02", "length", far, 2.0),) if far > 2 else ())
    assert "none of the 3 devices left out" in made.warnings[0]


@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize("name", ["lpa", "lpa+fedvsa"])
def test_from_five_devices_on_the_farthest_is_left_out(name: str, count: int) -> None:
    given = cohort([*honest(count - 1), [5.0] * 6], [10.0] * count, [1.0] * count)
    asked = BoundedRule(get_rule(name, prune_low=0.0, prune_high=1 / 3))(given)
    made = BoundedRule(get_rule(name, prune_low=0.0, prune_high=0.3))(given)

    assert made.kept[:-1].all() and made.kept[-1].all() == (count < 5)
    assert not asked.kept[-1].any(), "who asks for a third has it"


def test_where_the_farthest_is_left_out_the_nearest_counts_whatever_was_asked() -> None:
    """Of six 0.4 are two, and 0.1 nobody: two, a fifth, are left out as too far instead, and nobody as too near."""
    given = cohort([*honest(5), [5.0] * 6], [10.0] * 6)
    rule = get_rule("lpa", prune_low=0.4, prune_high=0.1)

    alone, made = rule(given), BoundedRule(rule)(given)

    assert alone.pruned is not None and made.pruned is not None
    assert [(alone.pruned == side).sum(axis=0).tolist() for side in (-1, 1)] == [[2, 2], [0, 0]]
    assert [(made.pruned == side).sum(axis=0).tolist() for side in (-1, 1)] == [[0, 0], [2, 2]]
    assert PruningOptions(prune_low=0.4, prune_high=0.1).leave_out(0.25) == PruningOptions(0.0, 0.25)
    assert PruningOptions().farthest == 0.1


def test_a_rule_that_says_it_prunes_is_fitted_to_few_devices_as_lpa_is() -> None:
    far = cohort([*honest(4), [90.0] * 6], [10.0] * 5)
    own = BoundedRule(Rule("mine", lpa, PruningOptions(), mean=True))(far)
    assert own.kept[:, 0].tolist() == BoundedRule(get_rule("lpa"))(far).kept[:, 0].tolist() == [True] * 4 + [False]
    assert "prune_high 0.1 of 5 is less than one device" in own.warnings[0]
    assert BoundedRule(get_rule("fedmlac", lpa=False))(far).kept.all()


def test_two_updates_of_nothing_shorten_the_third_to_nothing() -> None:
    rows = [[0.0] * 6, [0.0] * 6, [1.0] * 6]
    assert not BoundedRule(get_rule("lpa"))(cohort(rows, [10.0] * 3)).weights.any()


def test_lpa_of_ten_devices_or_two_is_what_it_was() -> None:
    for count in (2, 10, 12):
        given = cohort(honest(count), [50.0 + k for k in range(count)])
        assert BoundedRule(get_rule("lpa"))(given).weights.tobytes() == get_rule("lpa")(given).weights.tobytes()
    few = cohort(honest(6), [50.0] * 6)
    unpruned = BoundedRule(get_rule("lpa"), prune_few=False)
    assert unpruned(few).weights.tobytes() == get_rule("lpa")(few).weights.tobytes()
    ablation = get_rule("lpa", prune_low=0.0, prune_high=0.0)
    assert BoundedRule(ablation)(few).weights.tobytes() == ablation(few).weights.tobytes()


@pytest.mark.parametrize("name", ["fedvsa", "lpa+fedvsa"])
def test_a_lie_about_the_loss_has_a_bounded_share(name: str) -> None:
    lied = cohort([*honest(11), honest(1, 1)[0]], [40.0] * 12, [0.2] * 11 + [1e6])

    assert largest(get_rule(name)(lied)) > 0.8, "what the rule computes is not changed"
    made = BoundedRule(get_rule(name))(lied)

    counting = (made.share > 0).sum(axis=0)
    assert (made.share <= 3 / counting * (1 + 1e-9)).all()
    assert np.allclose(made.share.sum(axis=0), 1)
    first = made.bounded[0]
    assert (first.device, first.what, first.said) == ("dev-11", "loss", 1e6)
    # 3/12 of the softmax: e^f = 11 e^0.2 / 3.
    assert first.counted == pytest.approx(0.2 + math.log(11 / 3))


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_equal_devices_are_aggregated_as_the_rule_says(name: str) -> None:
    given = cohort(honest(12), [30.0] * 12, [1.0 + 0.01 * k for k in range(12)])
    alone, around = get_rule(name)(given), BoundedRule(get_rule(name))(given)
    assert around.weights.tobytes() == alone.weights.tobytes()
    assert around.bounded == ()


@pytest.mark.parametrize("weighting", ["samples", "fedvsa"])
def test_the_geometric_median_starts_from_bounded_weights(weighting: str) -> None:
    """With more than half of the weight one device is the median; an honest majority keeps it from that."""
    rows = [*honest(10), [50.0] * 6]
    lied = cohort(rows, [20.0] * 10 + [1e7], [0.1] * 10 + [1e6])
    rule = get_rule("geometric-median", weighting=weighting)
    assert np.abs(rule(lied).weights - 50).max() < 1
    assert np.abs(BoundedRule(rule)(lied).weights - 1).max() < 0.2


def test_only_who_was_bounded_is_named() -> None:
    """With the norm as a limit a loss may be negative, and is not bounded for that."""
    told = cohort(honest(4), [1.0] * 4, [-1.0, 0.0, 0.0, 4.0])
    found = BoundedRule(get_rule("fedvsa", limit="norm"), factor=1.5)(told).bounded
    assert [(entry.device, entry.what, entry.said) for entry in found] == [("dev-03", "loss", 4.0)]


def test_clips_far_beyond_what_was_registered_count_up_to_the_median() -> None:
    samples = np.array([10.0, 20.0, 30.0, 55.0, 55.0])
    registered = np.array([10.0, UNKNOWN, 0.0, 12.0, 50.0])
    found = cap_samples(samples, registered, 3.0)
    assert found.tolist() == [10.0, 20.0, 30.0, 36.0, 55.0], "0 counts as the median, 12 may have grown to 36"
    assert cap_samples(np.array([10.0, 1e7]), None, 3.0).tolist() == [10.0, 30.0], "one of two cannot move the median"


@pytest.mark.parametrize("count", [3, 4, 5, 6])
@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedvsa", "lpa", "lpa+fedvsa"])
def test_from_three_devices_on_none_that_lies_has_half_of_a_round(name: str, count: int) -> None:
    rows = honest(count)
    lied = cohort(rows, [1e7, *[40.0] * (count - 1)], [1e6, *[0.1] * (count - 1)])

    made = BoundedRule(get_rule(name))(lied)

    assert largest(get_rule(name)(lied)) > 0.9
    counting = (made.share > 0).sum(axis=0)
    assert (made.share <= np.where(counting > 2, np.minimum(3 / counting, HALF), 0.5) * (1 + 1e-9)).all()
    assert made.share.sum(axis=0) == pytest.approx(1.0)
    assert made.bounded[0].device == "dev-00"


def test_three_devices_one_of_which_lies_by_hand() -> None:
    """0.49 of the sum: c = 0.49 / 0.51 * 20; of the softmax: e^f = 0.49 / 0.51 * 2 e^0.2."""
    three = [[1.0] * 6, [2.0] * 6, [4.0] * 6]

    by_samples = BoundedRule(get_rule("fedavg"))(cohort(three, [10.0, 10.0, 1e7]))
    by_losses = BoundedRule(get_rule("fedvsa"))(cohort(three, [10.0] * 3, [0.2, 0.2, 1e6]))

    for made in (by_samples, by_losses):
        assert made.share[:, 0].tolist() == pytest.approx([0.255, 0.255, 0.49])
        assert made.weights.tolist() == pytest.approx([0.255 * 3 + 0.49 * 4] * 6)
        assert TWO not in made.warnings
    assert by_samples.bounded[0] == Bounded("dev-02", "samples", 1e7, pytest.approx(0.49 / 0.51 * 20))
    assert cap_losses(np.array([0.2, 0.2, 5.0]), 3.0)[2] == pytest.approx(0.2 + math.log(2 * 0.49 / 0.51))
    assert cap_losses(np.array([0.2, UNKNOWN, 5.0]), 3.0)[2] == pytest.approx(0.2), "two left of three count alike"


def test_a_lie_about_steps_does_not_take_over_fednova() -> None:
    """20 steps each give shares of 1/3; for one step of one device they are 41/9 and twice 41/180, 41/3 being τ_eff."""
    rows = [[1.0] * 6, [2.0] * 6, [4.0] * 6]
    told = {"samples": [10.0] * 3, "extras": Extras(steps=np.array([20.0, 20.0, 1.0]))}

    alone, made = get_rule("fednova")(cohort(rows, **told)), BoundedRule(get_rule("fednova"))(cohort(rows, **told))

    assert alone.share[:, 0] == pytest.approx([41 / 180, 41 / 180, 41 / 9])
    counted = 0.49 / 0.51 * 2 * 41 / 180
    assert made.share[:, 0] == pytest.approx([41 / 180, 41 / 180, counted])
    assert made.weights.tolist() == pytest.approx([3 * 41 / 180 + 4 * counted] * 6)
    assert made.bounded == (Bounded("dev-02", "share", pytest.approx(41 / 9), pytest.approx(counted)),)


def test_feddc_weighs_by_bounded_samples_in_both_its_modes() -> None:
    rows, extras = [[1.0] * 6, [2.0] * 6, [4.0] * 6], Extras(steps=np.ones(3), rate=0.1)

    for mode in ("official", "paper"):
        made = BoundedRule(get_rule("feddc", mode=mode))(cohort(rows, [10.0, 10.0, 1e7], extras=extras))
        assert made.bounded == (Bounded("dev-02", "samples", 1e7, pytest.approx(0.49 / 0.51 * 20)),)
        assert largest(made) == pytest.approx(HALF if mode == "paper" else 1 / 3)


def test_the_geometric_median_of_three_is_not_the_one_that_lies() -> None:
    lied = cohort([*honest(2), [50.0] * 6], [20.0, 20.0, 1e7], [0.1, 0.1, 1e6])

    for weighting in ("samples", "fedvsa"):
        rule = get_rule("geometric-median", weighting=weighting)
        assert np.abs(rule(lied).weights - 50).max() < 1
        assert np.abs(BoundedRule(rule)(lied).weights - 1).max() < 2


@pytest.mark.parametrize("name", ["fedavg", "fedvsa"])
def test_of_two_devices_it_is_said_that_nothing_bounds_one(name: str) -> None:
    two, losses = [[1.0] * 6, [2.0] * 6], [0.1, 1e6]

    assert TWO in BoundedRule(get_rule(name))(cohort(two, [10.0, 1e7], losses)).warnings
    assert BoundedRule(get_rule(name))(cohort(two, [10.0, 10.0], [0.1, 0.1])).warnings == ()
    assert BoundedRule(get_rule(name), factor=1.0)(cohort(two, [10.0, 1e7], losses)).share == pytest.approx(0.5)


def test_the_bound_of_one_device() -> None:
    assert [bound(m, 10, 3.0) for m in (1, 2, 3, 6, 7, 10)] == [3.0, 0.5, 0.49, 0.49, 3 / 7, 0.3]
    assert [bound(2, of, 3.0) for of in (2, 3)] == [1.5, 0.5]
    assert bound(3, 3, 1e9) > 1, "1e9 is no bound"


def test_the_ceiling_is_the_largest_that_keeps_the_bound() -> None:
    def shares(weights: Float64Array, factor: float) -> Float64Array:
        cut = np.minimum(weights, ceiling(weights, factor))
        found: Float64Array = cut / cut.sum()
        return found

    assert ceiling(np.array([1.0, 1.0, 1.0]), 1.0) == math.inf
    assert shares(np.array([8.0, 1.0, 1.0, 1.0, 1.0]), 2.0).max() == pytest.approx(0.4)
    rng = np.random.default_rng(0)
    for _ in range(300):
        weights = np.exp(rng.normal(0, 3, rng.integers(1, 30))) * (rng.random() < 0.9)
        factor = float(rng.uniform(1, 5))
        counting = max(1, int((weights > 0).sum()))
        if weights.sum():
            assert shares(weights, factor).max() <= max(factor / counting, 1 / counting) * (1 + 1e-8)


def test_a_bound_below_the_fair_share_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        BoundedRule(get_rule("lpa"), 0.5)


def test_one_device_that_fills_a_buffer_counts_once() -> None:
    """Ten updates in an asynchronous buffer, eight of them of one device that had kept its invitations."""
    rows, samples = [[1.0] * 6, [3.0] * 6, *([[9.0] * 6] * 8)], [10.0] * 10
    losses, ids = [0.5, 0.5, UNKNOWN, 1.0, *([2.0] * 6)], ["dev-a", "dev-b", *(f"dev-c@{k}" for k in range(1, 9))]
    buffer = cohort(rows, samples, losses, ids=ids, registered=[10.0] * 10)

    merged = by_device(buffer)

    assert merged.ids == ("dev-a", "dev-b", "dev-c")
    assert merged.samples.tolist() == [10.0, 10.0, 80.0]
    assert merged.registered.tolist() == [10.0, 10.0, 80.0]
    assert merged.losses.tolist() == [0.5, 0.5, pytest.approx(13 / 7)]
    # Its 80 samples count as 0.49 of the sum, and the median of three devices is not its model.
    assert BoundedRule(get_rule("fedavg"))(merged).weights[0] == pytest.approx(0.255 * (1 + 3) + 0.49 * 9)
    assert get_rule("median")(merged).weights[0] == 3.0
    assert get_rule("median")(buffer).weights[0] == 9.0, "as many clients as it has updates"
    assert by_device(merged) is merged


@pytest.mark.slow
def test_a_round_bounds_a_liar_and_tells_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="the devices of this round train on it")
    from tests.cloud import coordinator_site
    from tests.cloud.coordinator_site import FEDAVG, TASK, Site, run

    from auricle.packs.pack import load_pack
    from auricle_learning.runtimes import StepRuntime
    from auricle_learning.training.train import RoundResult, Trainer

    honest_trainer = coordinator_site.trainer

    def lying_trainer(runtime: StepRuntime, seed: int) -> Trainer:
        trainer = honest_trainer(runtime, seed)
        if seed == 4:
            train = trainer.run

            def lie(*given: Any, **named: Any) -> RoundResult:
                return replace(train(*given, **named), samples=10_000_000)

            monkeypatch.setattr(trainer, "run", lie)
        return trainer

    monkeypatch.setattr(coordinator_site, "trainer", lying_trainer)

    async def case(site: Site) -> None:
        coordinator = site.coordinator(1, FEDAVG, devices=4, quorum=1.0)
        site.start_agents(coordinator, coordinator_site.DEVICES)
        await coordinator.run()

        store = site.store()
        (event,) = store.journal.events(kind="bounded")
        why = Operations(store, coordinator.blobs, TASK, lambda: None, "anna").why_round(1, "dev-d")
        shares = site.done[0].report["layers"][0]["share"]
        assert max(shares.values()) == pytest.approx(HALF)
        # Three clips each: 0.49 of the sum is 0.49 / 0.51 * 9.
        assert (event.device, event.detail) == ("dev-d", "samples 1e+07 counted as 8.64706")
        assert "10,000,000 training samples, which counted as 9" in " ".join(why.devices[0].sentences)
        assert any("for less" in sentence and "dev-d" in sentence for sentence in why.sentences)

    run(case, StepRuntime(load_pack("digits")), tmp_path)


@pytest.mark.parametrize("weighting", ["samples", "fedvsa"])
def test_a_coalition_of_nobody_is_the_model_of_before_also_where_somebody_lies(weighting: str) -> None:
    """Shapley values ask for it in the inquiry into a poisoned round."""
    rule = BoundedRule(get_rule("geometric-median", weighting=weighting))
    of_six = cohort(honest(6), [1e7, *[10.0] * 5], [1e6, *[0.5] * 5])
    made = rule_models(*rule.game(of_six))(np.zeros((1, 6), bool))
    np.testing.assert_array_equal(made, of_six.start[None])
