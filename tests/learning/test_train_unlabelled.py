"""Rounds whose plan asks for FixMatch: what a step is by hand, whose clips count, and devices without any label."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tests.learning.toy import PACK, clips, device
from tests.learning.toy_training import LITE, PLUGIN, RUNTIME, SURE, distance, plan_of, ran, trainer_of

from auricle.speech.augment import Augmenter
from auricle.speech.features import LogMel
from auricle.wire.plan import FixMatch, Plan
from auricle_learning.methods import get_method
from auricle_learning.methods.vectors import lent_sizes
from auricle_learning.runtimes.interface import accuracy, softmax
from auricle_learning.training.carried import Carried, negatives_beside
from auricle_learning.training.fixmatch import WEAK, two_view_batches
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.mechanism import LentData
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import Trainer

FRONTEND = LogMel(PACK.manifest.task)
SEMI = plan_of(mode="supervised", rate=0.1, fixmatch=FixMatch())


def nobody(count: int = 0) -> Clips:
    return clips(max(count, 1)).chosen(np.arange(count))


def mute(count: int, seed: int = 5) -> DeviceData:
    return DeviceData(nobody(), nobody(), None, clips(count, seed))


def _same(energies: np.ndarray) -> np.ndarray:
    return energies


# -- the two views


def test_the_weak_view_is_the_clip_moved_in_time() -> None:
    energies = clips(6).energies
    weak = Augmenter(FRONTEND, None, WEAK)(energies, np.random.default_rng(1))
    for ours, clip in zip(weak, energies, strict=True):
        moved = [clip[np.clip(np.arange(100) + shift, 0, 99)] for shift in range(-11, 12)]
        same = [np.allclose(ours, one, atol=1e-5) for one in FRONTEND.finish(np.stack(moved))]
        assert sum(same) == 1 and not same[0] and not same[-1]


@pytest.mark.parametrize(("labelled", "free"), [(40, 6), (6, 40), (16, 16)])
def test_an_epoch_has_every_clip_of_the_larger_set_once_and_the_others_again(labelled: int, free: int) -> None:
    own, others = clips(labelled), clips(free, 9)
    seen = list(two_view_batches(own, others, 3, 16, np.random.default_rng(0), _same, lambda e: -e))
    assert len(seen) == max(-(-labelled // 16), -(-free // 16))
    assert all(np.array_equal(b["strong"], -b["weak"]) for b in seen)
    for name, weight, given in (("x", "weight", own), ("weak", "weight.unlabelled", others)):
        found = np.concatenate([b[name][b[weight] > 0][:, 0, 0] for b in seen])
        assert len({*found.tolist()}) == len(given)
        if len(given) == max(labelled, free):
            assert sorted(found) == sorted(given.energies[:, 0, 0])


def test_without_labels_the_labelled_half_weighs_nothing() -> None:
    seen = list(two_view_batches(nobody(), clips(20), 3, 16, np.random.default_rng(0), _same, _same))
    assert [b["weight.unlabelled"].sum() for b in seen] == [16, 4]
    for batch in seen:
        assert not batch["weight"].any() and not batch["target"].any()
        assert batch["x"].shape == batch["weak"].shape


def test_windows_of_the_packs_negatives_are_in_the_labelled_half() -> None:
    windows = Carried((np.full((300, 40), 7.0, np.float32),), (2,), 100, 0.5)
    seen = list(two_view_batches(clips(8), clips(16, 9), 3, 16, np.random.default_rng(0), _same, _same, windows))
    (batch,) = seen
    assert (batch["x"][8:] == 7.0).all() and batch["weight"].sum() == 16
    assert batch["weight.unlabelled"].sum() == 16


# -- one step, by hand


def test_a_step_without_labels_is_the_mean_over_the_whole_batch_of_what_is_sure() -> None:
    """The bias's gradient is mean 1[max q >= τ] (p - e), p of the strong view and q of the weak one."""
    trainer, plan = trainer_of(mute(12)), msgspec.structs.replace(SEMI, rate=1.0, fixmatch=FixMatch(threshold=0.6))
    rng = np.random.default_rng([0, plan.seed, 1])
    order = rng.permutation(12)
    energies = clips(12, 5).energies[np.concatenate([order, np.zeros(4, int)])]
    weak, strong = trainer.views.weak(energies, rng)[:12], trainer.views.strong(energies, rng)[:12]
    unsettled = SURE * np.float32(0.6)
    q, p = (softmax(RUNTIME.logits("crnn-lite", unsettled, view)) for view in (weak, strong))
    sure = q.max(axis=1) >= 0.6
    assert 0 < sure.sum() < 12
    gradient = ((p - np.eye(3)[q.argmax(axis=1)]) * sure[:, None]).sum(axis=0) / 12
    result = ran(trainer, plan, unsettled)
    assert result.plugin[-3:] - unsettled[-3:] == pytest.approx(-gradient, abs=1e-5)
    assert (result.steps, result.samples, result.unsupervised) == (1, 12, 12)


def test_lambda_scales_what_clips_without_labels_teach() -> None:
    trainer = trainer_of(mute(12))
    whole, quarter = (
        ran(trainer, msgspec.structs.replace(SEMI, rate=2.0, fixmatch=FixMatch(weight=weight)), SURE).plugin - SURE
        for weight in (1.0, 0.25)
    )
    assert distance(4 * quarter, whole) < 1e-3


def test_with_labels_both_losses_add_up() -> None:
    """One batch of each; the labelled clips are weakly augmented though the plan says augment."""
    data = replace(device(16), unlabelled=clips(16, 5))
    plan = msgspec.structs.replace(SEMI, augment=True)
    trainer = trainer_of(data)
    rng = np.random.default_rng([0, plan.seed, 1])
    own = data.train.chosen(rng.permutation(16))
    x = trainer.views.weak(own.energies, rng)
    free = clips(16, 5).energies[rng.permutation(16)]
    weak, strong = trainer.views.weak(free, rng), trainer.views.strong(free, rng)
    said, q, p = (softmax(RUNTIME.logits("crnn-lite", SURE, view)) for view in (x, weak, strong))
    sure = q.max(axis=1) >= 0.7
    labelled = (said - np.eye(3)[own.targets]).mean(axis=0)
    gradient = labelled + ((p - np.eye(3)[q.argmax(axis=1)]) * sure[:, None]).mean(axis=0)
    result = trainer.run(plan, 1, SURE, trainer.first_state())
    assert result.plugin[-3:] - SURE[-3:] == pytest.approx(-0.1 * gradient, abs=1e-5)
    assert (result.samples, result.unsupervised) == (32, 16)


# -- devices without labels


def test_a_device_without_labels_learns_from_a_model_that_knows() -> None:
    """Half of the knowledge is taken away; what is left labels the rest."""
    weakened = SURE + 0.15 * np.random.default_rng(3).standard_normal(SURE.size).astype(np.float32) * np.abs(SURE)
    trainer, test = trainer_of(mute(60)), clips(60, 77)
    plan = plan_of(mode="supervised", optimizer="adamw", rate=1e-3, epochs=8, fixmatch=FixMatch())

    def right(weights: np.ndarray) -> float:
        found = accuracy(RUNTIME.logits("crnn-lite", weights, FRONTEND.finish(test.energies)), test.targets)
        assert found is not None
        return found

    result = trainer.run(plan, 1, weakened, trainer.first_state())
    assert right(result.plugin) >= right(weakened)
    assert result.personal_accuracy is None and result.held_out == 0
    assert np.isfinite(result.loss) and result.loss >= 0


@pytest.mark.parametrize("mode", ["supervised", "mutual"])
def test_a_model_that_is_sure_of_nothing_comes_back_as_it_was(mode: str) -> None:
    """Decay alone would have moved it; a direction of nothing is left out by the rule."""
    plan = msgspec.structs.replace(SEMI, fixmatch=FixMatch(threshold=1.0), decay=0.5, mode=mode)
    result = ran(trainer_of(mute(20)), plan)
    assert np.array_equal(result.plugin, PLUGIN)
    assert (result.sure, result.loss, result.samples) == (0, 0.0, 20)


def test_its_loss_is_that_of_the_received_model_on_clips_as_they_are() -> None:
    posteriors = softmax(RUNTIME.logits("crnn-lite", SURE, FRONTEND.finish(clips(20, 5).energies))).max(axis=1)
    sure = posteriors >= 0.7
    result = ran(trainer_of(mute(20)), SEMI, SURE)
    assert result.sure == sure.sum() > 0
    assert result.loss == pytest.approx(-np.log(posteriors[sure]).sum() / 20, rel=1e-4)


@pytest.mark.parametrize("changes", [{"mode": "mutual"}, {"mu": 1e-6}], ids=str)
def test_rounds_without_the_graph_take_it_by_targets(changes: dict[str, object]) -> None:
    plan = plan_of(**{"mode": "supervised", "rate": 0.05, "plugin_ce": 1.0, "fixmatch": FixMatch(), **changes})
    result = ran(trainer_of(mute(20)), plan, SURE)
    assert result.sure > 0 and not np.array_equal(result.plugin, SURE)


@pytest.mark.parametrize("name", ["scaffold", "feddyn", "feddc"])
def test_rounds_whose_method_adds_to_gradients_take_it_by_targets(name: str) -> None:
    """No step graph has FixMatch and these terms; with nothing kept so far they are 0: mixed batches are left."""
    trainer = trainer_of(replace(device(20), unlabelled=clips(30, 7)))
    plan = get_method(name).rule_for_rounds.plan_for(plan_of(mode="supervised", rate=0.05, clip=10.0))
    plain = plan_of(mode="supervised", rate=0.05, clip=10.0, mu=plan.mu or 1e-9)

    nothing = {each: np.zeros(n, np.float32) for each, n in lent_sizes(plan, PACK).items()}
    ours = trainer.run(plan, 1, SURE, trainer.first_state(), lent=LentData(vectors=nothing))
    mixed = ran(trainer, plain, SURE)

    assert ours.sure > 0
    assert (ours.steps, ours.samples) == (mixed.steps, 20)
    assert distance(ours.plugin - SURE, mixed.plugin - SURE) < 1e-3
    assert any(kept.any() for kept in ours.local.variates.values())
    again = trainer.run(plan, 2, ours.plugin, ours.local, lent=LentData(vectors=nothing))
    assert np.isfinite(again.plugin).all() and again.steps == mixed.steps


def test_a_method_that_leaves_gradients_alone_has_the_graph() -> None:
    trainer = trainer_of(replace(device(20), unlabelled=clips(30, 7)))
    plan = plan_of(mode="supervised", rate=0.05)
    told = get_method("feddisco").rule_for_rounds.plan_for(plan)

    assert np.array_equal(ran(trainer, told, SURE).plugin, ran(trainer, plan, SURE).plugin)


def test_an_owner_who_wants_no_clips_without_labels_used_has_none_used() -> None:
    data = replace(device(20), unlabelled=clips(30, 7))
    trainer = Trainer(RUNTIME, "crnn-lite", data, 0, settings=LearnSettings(clips=1, judge=False, unlabelled=0))
    ours, theirs = (ran(t, SEMI, SURE) for t in (trainer, trainer_of(device(20))))
    assert np.array_equal(ours.plugin, theirs.plugin)
    assert (ours.samples, ours.unsupervised) == (20, 0)


def test_a_plan_that_does_not_ask_counts_labelled_clips_alone() -> None:
    assert "fixmatch" not in msgspec.to_builtins(Plan())
    trainer = trainer_of(replace(device(20), unlabelled=clips(30, 7)))
    assert (trainer.clips_of(plan_of()).all, trainer.clips_of(None).all, trainer.clips_of(SEMI).all) == (20, 20, 50)
    result = ran(trainer, plan_of(mode="supervised"), SURE)
    assert (result.samples, result.unsupervised) == (20, None)


def test_the_packs_negatives_are_no_labels_of_a_device_that_has_none() -> None:
    assert PACK.manifest.negatives is not None
    trainer = Trainer(RUNTIME, "crnn-lite", mute(20), 0, settings=LearnSettings(clips=1, judge=False, carried=0.5))
    assert negatives_beside(trainer.pack, 0.5, trainer.data.train) is None
    assert LITE.size == ran(trainer, SEMI, SURE).plugin.size
