"""What a round's training makes of labels: how frequent they are, what a clip weighs, and clips without any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.learning.toy import PACK, clips, device
from tests.learning.toy_training import LITE, PLUGIN, RUNTIME, SURE, distance, plan_of, ran, trainer_of

from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from auricle_learning.runtimes import Job
from auricle_learning.training.batches import fixmatch_batches, mixed_batches, pseudo_labelled
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.logit_adjustment import label_offset
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, Trainer
from auricle_learning.training.training_job import scalars_of, with_offset

# -- logit adjustment


FEW = clips(9).chosen(np.array([0, 3, 6, 1]))
"""Three clips of the first label, one of the second, none of the third."""


def test_the_prior_is_the_centred_log_frequency() -> None:
    """3, 1 and 0 clips, half a clip added: 3.5, 1.5 and 0.5 of 5.5; the centre is their geometric mean."""
    logs = np.log([3.5, 1.5, 0.5])
    offset = label_offset(FEW, 2.0, 3)
    assert offset == pytest.approx(2 * (logs - logs.mean()), abs=1e-6)
    moved = with_offset(PLUGIN, offset) - PLUGIN
    assert moved[-3:] == pytest.approx(offset, abs=1e-6) and not moved[:-3].any()
    assert with_offset(PLUGIN, None) is PLUGIN


def test_where_all_labels_are_equally_frequent_the_prior_changes_nothing() -> None:
    even, plain = (ran(trainer_of(device(18)), plan_of(prior=prior)) for prior in (1.0, 0.0))
    assert np.array_equal(even.plugin, plain.plugin)


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_the_prior_is_taken_off_again_after_training(mode: str) -> None:
    """Of a step too small to matter nothing is left, though the labels are 3, 1 and 0 clips."""
    trainer = trainer_of(DeviceData(FEW, FEW, None))
    result = ran(trainer, plan_of(mode=mode, prior=2.0, rate=1e-9, plugin_ce=1.0))
    assert result.plugin == pytest.approx(PLUGIN, abs=1e-6)


def test_training_sees_the_prior_and_what_it_gives_back_is_only_what_was_learnt() -> None:
    """All weights 0: with the prior the answer is 7/11, 3/11 and 1/11, the clips are 3/4, 1/4 and 0 of the labels.

    A step of rate 1 moves the biases by the difference; without a prior the answer was a third each.
    """
    trainer = trainer_of(DeviceData(FEW, FEW, None))
    for prior, answer in ((1.0, [7 / 11, 3 / 11, 1 / 11]), (0.0, [1 / 3] * 3)):
        result = ran(trainer, plan_of(mode="supervised", prior=prior, rate=1.0), np.zeros_like(PLUGIN))
        assert result.plugin[-3:] == pytest.approx(np.array([3 / 4, 1 / 4, 0]) - answer, abs=1e-6)


# -- weights, and clips without labels


def _moved(data: Clips, **changes: object) -> Flat:
    return ran(trainer_of(DeviceData(data, data, None)), plan_of(plugin_ce=1.0, **changes)).plugin - PLUGIN


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_a_clip_that_weighs_twice_is_as_good_as_two_of_it(mode: str) -> None:
    """Both fill one batch, whose loss is the weighted mean."""
    few = clips(4)
    once = Clips(few.energies, few.targets, np.array([2, 1, 1, 1], np.float32))
    assert distance(_moved(once, mode=mode), _moved(few.chosen(np.array([0, 0, 1, 2, 3])), mode=mode)) < 1e-3


def test_a_clip_that_weighs_nothing_teaches_nothing() -> None:
    few = clips(6)
    ignored = Clips(few.energies, few.targets, (np.arange(6) < 4).astype(np.float32))
    assert distance(_moved(few.chosen(np.arange(4))), _moved(ignored)) < 1e-3


def test_the_prior_counts_weights() -> None:
    """Weights 2 + 1, 1 and 0 over the labels: as three clips, one and none."""
    few = Clips(clips(9).energies[:3], np.array([0, 0, 1]), np.array([2, 1, 1], np.float32))
    logs = np.log([3.5, 1.5, 0.5])
    assert label_offset(few, 1.0, 3) == pytest.approx(logs - logs.mean(), abs=1e-6)


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_clips_of_which_the_received_model_is_not_sure_change_nothing(mode: str) -> None:
    data, plan = device(20), plan_of(mode=mode, plugin_ce=1.0)
    unsure = replace(data, unlabelled=clips(30, 7))
    alone, beside = (trainer_of(d).run(plan, 1, PLUGIN, LocalState(LITE.initial(1))) for d in (data, unsure))
    assert beside.sure == 0
    assert np.array_equal(alone.plugin, beside.plugin)
    assert np.array_equal(alone.local.weights, beside.local.weights)


@pytest.mark.parametrize("changes", [{}, {"mode": "supervised"}, {"mode": "supervised", "mu": 1e-6}], ids=str)
def test_clips_without_labels_teach_what_the_received_model_is_sure_of(changes: dict[str, object]) -> None:
    """The labelled clips are of one label only; what the two others are comes from the fleet's model."""
    one, test, start = clips(12).chosen(np.arange(0, 12, 3)), clips(30, 77), LocalState(LITE.initial(9))
    rates = {"optimizer": "adamw", "rate": 1e-2, "local_rate": 1e-2, "epochs": 30, "plugin_ce": 1.0}
    plan, learnt = plan_of(**{**rates, **changes}), []
    for unlabelled in (None, clips(30, 5)):
        trainer = trainer_of(DeviceData(one, test, None, unlabelled))
        result = trainer.run(plan, 1, SURE, start)
        assert result.samples == 4
        weights = result.local.weights if plan.mode == "mutual" else result.plugin
        learnt.append(trainer.held_out_accuracy("crnn-lite", weights) or 0.0)
    assert result.sure > 20
    assert learnt[1] > learnt[0] + 0.2


def test_the_fixmatch_graph_and_weighted_targets_take_the_same_step() -> None:
    """One SGD step, all clips sure, no padding: the graph's loss is f_s + f_u, the weights' is half of it."""
    labelled, others = clips(8), clips(8, 5)
    finish = LogMel(PACK.manifest.task).finish
    pseudo = pseudo_labelled(others, RUNTIME.logits("crnn-lite", SURE, finish(others.energies)), 0.0)
    scalars = scalars_of(plan_of(mode="supervised", rate=0.1))
    rng = np.random.default_rng(0)

    def moved(kind: str, batch: dict[str, np.ndarray], **more: object) -> np.ndarray:
        values = {"models": {"model": "crnn-lite"}, "optimizer": "sgd", "weights": {"model": PLUGIN}, **more}
        job = Job(kind=kind, scalars={**scalars, "threshold": 0.0, "lambda": 1.0}, **values)  # type: ignore[arg-type]
        training = RUNTIME.begin(job)
        training.step(batch)
        return training.weights("model") - PLUGIN

    (mixed,) = mixed_batches(labelled, pseudo, 1.0, 3, 16, rng, finish, finish)
    (whole,) = fixmatch_batches(labelled, pseudo, 3, 16, rng, finish, finish, finish)
    assert distance(2 * moved("supervised", mixed), moved("fixmatch", whole, vectors={"teacher": SURE})) < 1e-3


def test_a_lambda_of_0_leaves_clips_without_labels_out() -> None:
    data = replace(device(20), unlabelled=clips(30, 7))
    trainer = Trainer(RUNTIME, "crnn-lite", data, 0, settings=LearnSettings(unlabelled=0))
    assert trainer.run(plan_of(), 1, SURE, trainer.first_state()).sure == 0
