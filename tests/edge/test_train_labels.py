"""What a round's training makes of labels: how frequent they are, what a clip weighs, and clips without any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.edge.toy import PACK, clips, device
from tests.edge.toy_training import LITE, PLUGIN, RUNTIME, distance, plan_of, trainer_of

from auricle.speech.features import LogMel
from auricle_edge.runtimes import Job
from auricle_edge.training.batches import fixmatch_batches, mixed_batches, pseudo_labelled
from auricle_edge.training.speech_data import Clips, DeviceData
from auricle_edge.training.train import LocalState, Trainer
from auricle_edge.training.training_job import LearnSettings, adjusted, scalars_of

# -- logit adjustment


def test_the_prior_is_the_centred_log_frequency() -> None:
    """3, 1 and 0 clips, half a clip added: 3.5, 1.5 and 0.5 of 5.5; the centre is their geometric mean."""
    data = clips(9)
    few = data.chosen(np.array([0, 3, 6, 1]))

    moved = adjusted(PLUGIN, few, 2.0, PACK) - PLUGIN

    logs = np.log([3.5, 1.5, 0.5])
    assert moved[-3:] == pytest.approx(2 * (logs - logs.mean()), abs=1e-6)
    assert not moved[:-3].any()
    assert adjusted(PLUGIN, few, 0.0, PACK) is PLUGIN


def test_where_all_labels_are_equally_frequent_the_prior_changes_nothing() -> None:
    trainer = trainer_of(device(18))

    even, plain = (trainer.run(plan_of(prior=p), 1, PLUGIN, trainer.first_state()) for p in (1.0, 0.0))

    assert np.array_equal(even.plugin, plain.plugin)


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_the_prior_is_taken_off_again_after_training(mode: str) -> None:
    """Of a step too small to matter nothing is left, though the labels are 3, 1 and 0 clips."""
    few = clips(9).chosen(np.array([0, 3, 6, 1]))
    trainer = trainer_of(DeviceData(few, few, None))

    result = trainer.run(plan_of(mode=mode, prior=2.0, rate=1e-9, plugin_ce=1.0), 1, PLUGIN, trainer.first_state())

    assert result.plugin == pytest.approx(PLUGIN, abs=1e-6)


def test_training_sees_the_prior_and_what_it_gives_back_is_only_what_was_learnt() -> None:
    """All weights 0: with the prior the answer is 7/11, 3/11 and 1/11, the clips are 3/4, 1/4 and 0 of the labels.

    A step of rate 1 moves the biases by the difference; without a prior the answer was a third each.
    """
    few = clips(9).chosen(np.array([0, 3, 6, 1]))
    trainer = trainer_of(DeviceData(few, few, None))
    zeros = np.zeros_like(PLUGIN)

    with_prior, without = (
        trainer.run(plan_of(mode="supervised", prior=p, rate=1.0), 1, zeros, trainer.first_state()).plugin
        for p in (1.0, 0.0)
    )

    assert with_prior[-3:] == pytest.approx([3 / 4 - 7 / 11, 1 / 4 - 3 / 11, -1 / 11], abs=1e-6)
    assert without[-3:] == pytest.approx([3 / 4 - 1 / 3, 1 / 4 - 1 / 3, -1 / 3], abs=1e-6)


# -- weights, and clips without labels


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_a_clip_that_weighs_twice_is_as_good_as_two_of_it(mode: str) -> None:
    """Both fill one batch, whose loss is the weighted mean."""
    few = clips(4)
    weights = np.array([2, 1, 1, 1], np.float32)
    twice = few.chosen(np.array([0, 0, 1, 2, 3]))

    once, doubled = (
        trainer_of(DeviceData(data, data, None)) for data in (Clips(few.energies, few.targets, weights), twice)
    )
    moved = [
        t.run(plan_of(mode=mode, plugin_ce=1.0), 1, PLUGIN, t.first_state()).plugin - PLUGIN for t in (once, doubled)
    ]

    assert distance(moved[0], moved[1]) < 1e-3


def test_a_clip_that_weighs_nothing_teaches_nothing() -> None:
    few = clips(6)
    weights = (np.arange(6) < 4).astype(np.float32)
    part = few.chosen(np.arange(4))

    without, ignored = (
        trainer_of(DeviceData(data, part, None)) for data in (part, Clips(few.energies, few.targets, weights))
    )
    moved = [t.run(plan_of(plugin_ce=1.0), 1, PLUGIN, t.first_state()).plugin - PLUGIN for t in (without, ignored)]

    assert distance(moved[0], moved[1]) < 1e-3


def test_the_prior_counts_weights() -> None:
    """Weights 2 + 1, 1 and 0 over the labels: as three clips, one and none."""
    few = Clips(clips(9).energies[:3], np.array([0, 0, 1]), np.array([2, 1, 1], np.float32))

    moved = adjusted(PLUGIN, few, 1.0, PACK) - PLUGIN

    logs = np.log([3.5, 1.5, 0.5])
    assert moved[-3:] == pytest.approx(logs - logs.mean(), abs=1e-6)


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_clips_of_which_the_received_model_is_not_sure_change_nothing(mode: str) -> None:
    data = device(20)
    unsure = replace(data, unlabelled=clips(30, 7))
    plan = plan_of(mode=mode, plugin_ce=1.0)

    alone, beside = (trainer_of(d).run(plan, 1, PLUGIN, LocalState(LITE.initial(1))) for d in (data, unsure))

    assert beside.sure == 0
    assert np.array_equal(alone.plugin, beside.plugin)
    assert np.array_equal(alone.local.weights, beside.local.weights)


def _sure_plugin() -> np.ndarray:
    """A plug-in that was taught the toy task."""
    trainer = trainer_of(device(48, seed=3))
    plan = plan_of(mode="supervised", optimizer="adamw", rate=3e-3, epochs=25)
    return trainer.run(plan, 1, PLUGIN, trainer.first_state()).plugin


SURE = _sure_plugin()


@pytest.mark.parametrize("changes", [{}, {"mode": "supervised"}, {"mode": "supervised", "mu": 1e-6}], ids=str)
def test_clips_without_labels_teach_what_the_received_model_is_sure_of(changes: dict[str, object]) -> None:
    """The labelled clips are of one label only; what the two others are comes from the fleet's model."""
    few = clips(12)
    one = few.chosen(np.arange(0, 12, 3))
    plan = plan_of(
        **{"optimizer": "adamw", "rate": 1e-2, "local_rate": 1e-2, "epochs": 30, "plugin_ce": 1.0, **changes}
    )
    start = LocalState(LITE.initial(9))
    test = clips(30, 77)

    results = [
        (t := trainer_of(DeviceData(one, test, None, unlabelled))).run(plan, 1, SURE, start)
        for unlabelled in (None, clips(30, 5))
    ]

    assert results[1].sure > 20
    assert [r.samples for r in results] == [4, 4]
    learnt = [t.held_out_accuracy("crnn-lite", r.local.weights if plan.mode == "mutual" else r.plugin) for r in results]
    assert learnt[1] is not None
    assert learnt[0] is not None
    assert learnt[1] > learnt[0] + 0.2


def test_the_fixmatch_graph_and_weighted_targets_take_the_same_step() -> None:
    """One SGD step, all clips sure, no padding: the graph's loss is f_s + f_u, the weights' is half of it."""
    labelled, others = clips(8), clips(8, 5)
    finish = LogMel(PACK.manifest.task).finish
    pseudo = pseudo_labelled(others, RUNTIME.logits("crnn-lite", SURE, finish(others.energies)), 0.0)
    scalars = scalars_of(plan_of(mode="supervised", rate=0.1))
    rng = np.random.default_rng(0)

    def moved(kind: str, batch: dict[str, np.ndarray], **more: object) -> np.ndarray:
        job = Job(
            kind=kind,
            models={"model": "crnn-lite"},
            optimizer="sgd",
            weights={"model": PLUGIN},
            scalars={**scalars, "threshold": 0.0, "lambda": 1.0},
            **more,  # type: ignore[arg-type]
        )
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
