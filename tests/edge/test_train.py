"""A round's training on the device."""

from __future__ import annotations

import math
import threading

import msgspec
import numpy as np
import pytest
from tests.learning.toy import clips, device
from tests.learning.toy_training import FAST, LITE, PLUGIN, RUNTIME, distance, plan_of, ran, trainer_of

from auricle.errors import AuricleError
from auricle.speech.features import LogMel
from auricle.wire.plan import InferenceLoss, Plan
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.gate_watch import OPEN, RoundControl
from auricle_learning.methods.passes import graph_kind, graph_optimizer
from auricle_learning.runtimes import Job
from auricle_learning.training.batches import batches
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, RoundResult, TrainingStopped
from auricle_learning.training.training_job import scalars_of

# -- inference loss


def test_the_inference_loss_is_the_mean_over_the_training_clips() -> None:
    """Zero weights: logits are the bias (0, ln 2, ln 5), p = (1, 2, 5)/8, with 2, 2 and 1 clips of the labels."""
    plugin = np.zeros_like(PLUGIN)
    plugin[-3:] = [0, math.log(2), math.log(5)]
    loss = trainer_of(device(5)).inference_loss(plugin)
    assert loss == pytest.approx((2 * math.log(8) + 2 * math.log(4) + math.log(8 / 5)) / 5, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "of_label"),
    [("mse", (49 + 4 + 25, 1 + 36 + 25, 1 + 4 + 9)), ("l1", (8 * 14, 8 * 12, 8 * 6))],
)
def test_other_inference_losses_are_sums_over_the_labels(kind: InferenceLoss, of_label: tuple[int, ...]) -> None:
    """p = (1, 2, 5)/8 as above: p - y = (-7, 2, 5)/8, (1, -6, 5)/8 and (1, 2, -3)/8."""
    plugin = np.zeros_like(PLUGIN)
    plugin[-3:] = [0, math.log(2), math.log(5)]
    trainer, wanted = trainer_of(device(5)), (2 * of_label[0] + 2 * of_label[1] + of_label[2]) / 64 / 5
    assert trainer.inference_loss(plugin, kind) == pytest.approx(wanted, abs=1e-6)
    assert ran(trainer, plan_of(inference_loss=kind), plugin).loss == trainer.inference_loss(plugin, kind)


def test_the_inference_loss_is_that_of_the_received_plug_in_without_augmentation() -> None:
    trainer = trainer_of(device(20))
    for changes in ({"rate": 1.0}, {"augment": True}, {"prior": 1.0}, {"mode": "supervised"}):
        assert ran(trainer, plan_of(**changes)).loss == trainer.inference_loss(PLUGIN)


@pytest.mark.parametrize("augment", [False, True])
def test_log_mels_of_few_clips_are_made_once_a_round_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, augment: bool
) -> None:
    """20 clips to train on and 5 held out, looked at four times: as received, in two epochs, and as trained."""
    trainer, made, plain = trainer_of(DeviceData(clips(20), clips(5, 9), None)), list[int](), LogMel.finish
    wanted = ran(trainer, plan_of(epochs=2, augment=augment), PLUGIN)

    def finish(self: LogMel, energies: np.ndarray) -> np.ndarray:
        made.append(len(energies))
        return plain(self, energies)

    monkeypatch.setattr(LogMel, "finish", finish)
    trainer.renew(trainer.data)
    assert np.array_equal(ran(trainer, plan_of(epochs=2, augment=augment), PLUGIN).plugin, wanted.plugin)
    assert sorted(made)[:2] == [5, 20] and len(made) == 2
    trainer.inference_loss(PLUGIN)
    assert made[2:] == [20]


def test_the_inference_loss_does_not_see_how_many_clips_there_are_nor_the_held_out_ones() -> None:
    once = clips(6)
    thrice = Clips(np.concatenate([once.energies] * 3), np.concatenate([once.targets] * 3))
    first = trainer_of(DeviceData(once, clips(3, 5), None)).inference_loss(PLUGIN)
    assert trainer_of(DeviceData(thrice, clips(9, 6), None)).inference_loss(PLUGIN) == pytest.approx(first, abs=1e-6)


# -- batches


def test_every_clip_is_seen_once_an_epoch_and_padding_weighs_nothing() -> None:
    data = clips(37)
    seen = list(batches(data, 3, 16, np.random.default_rng(0), lambda energies: energies))
    assert [int(batch["weight"].sum()) for batch in seen] == [16, 16, 5]
    assert all(batch["x"].shape == (16, 100, 40) for batch in seen)
    real, labels = (np.concatenate([b[name][b["weight"] == 1] for b in seen]) for name in ("x", "target"))
    assert sorted(real[:, 0, 0].tolist()) == sorted(data.energies[:, 0, 0].tolist())
    assert labels.sum(axis=0).tolist() == np.bincount(data.targets).tolist()


@pytest.mark.parametrize("kind", ["mutual", "alternating", "supervised"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_padded_batch_trains_like_its_samples_alone(kind: str, optimizer: str) -> None:
    """Four samples and twelve of weight 0, whatever they are, equal the four of them four times over."""
    mode = "supervised" if kind == "supervised" else "mutual"
    order = "alternating" if kind == "alternating" else "simultaneous"
    plan = plan_of(mode=mode, order=order, optimizer=optimizer, momentum=0.5, plugin_ce=0.7)
    roles = {"model": "crnn-lite"} if mode == "supervised" else {"local": "crnn-lite", "plugin": "crnn-lite"}
    weights = {role: LITE.initial(seed) for seed, role in enumerate(roles)}
    job = Job(kind=graph_kind(plan), models=roles, optimizer=optimizer, scalars=scalars_of(plan), weights=weights)
    x = np.random.default_rng(0).standard_normal((16, 100, 40)).astype(np.float32)
    y = np.eye(3, dtype=np.float32)[np.arange(16) % 3]

    def step(rows: np.ndarray, weight: np.ndarray, noise: float) -> dict[str, np.ndarray]:
        features = x[rows] + noise * (1 - weight)[:, None, None]
        training = RUNTIME.begin(job)
        losses = training.step({"x": features.astype(np.float32), "target": y[rows], "weight": weight})
        trained = {role: training.weights(role) for role in roles}
        return {**{name: np.array(loss) for name, loss in losses.items()}, **trained, **training.slots()}

    four = (np.arange(16) < 4).astype(np.float32)
    padded, otherwise = (step(np.arange(16), four, noise) for noise in (0.0, 3.0))
    repeated = step(np.arange(16) % 4, np.ones(16, np.float32), 0.0)
    for name, value in padded.items():
        assert np.array_equal(value, otherwise[name])
        if optimizer != "adamw" or name not in roles:  # its first step is the gradient's sign: rounding decides near 0
            assert np.allclose(value, repeated[name], rtol=1e-4, atol=2e-6)


# -- learning


@pytest.mark.parametrize("changes", [{}, {"mode": "supervised"}], ids=str)
def test_training_lowers_the_loss_of_the_plug_in(changes: dict[str, object]) -> None:
    trainer = trainer_of(device(48))
    result = ran(trainer, msgspec.structs.replace(FAST, **changes))
    assert trainer.inference_loss(result.plugin) < result.loss - 0.05
    assert (result.steps, result.samples, result.held_out) == (4 * 3, 48, 6)


def test_a_few_rounds_learn_the_toy_task() -> None:
    trainer = trainer_of(device(48, held_out=30))
    plugin, state = PLUGIN, trainer.first_state()
    for number in range(1, 6):
        result = trainer.run(msgspec.structs.replace(FAST, keep_state=True), number, plugin, state)
        plugin, state = result.plugin, result.local
    assert trainer.inference_loss(plugin) < 0.3
    assert result.personal_accuracy is not None
    assert result.personal_accuracy > 0.9
    assert trainer.held_out_accuracy("crnn-lite", plugin) == pytest.approx(1.0, abs=0.1)


def test_without_a_label_weight_the_plug_in_learns_from_the_local_model_only() -> None:
    """Mutual learning with alpha 0 and both models equal: no gradient anywhere, nothing moves (eq. 6 and 8)."""
    plan = plan_of(alpha=0.0, rate=1.0, local_rate=1.0)
    result = trainer_of(device(16)).run(plan, 1, PLUGIN, LocalState(PLUGIN))
    assert np.abs(result.plugin - PLUGIN).max() < 1e-6
    assert np.abs(result.local.weights - PLUGIN).max() < 1e-6


def test_supervised_rounds_leave_the_local_model_alone() -> None:
    trainer = trainer_of(device(20))
    result = ran(trainer, plan_of(mode="supervised"))
    assert np.array_equal(result.local.weights, trainer.first_state().weights)
    assert not np.array_equal(result.plugin, PLUGIN)
    assert result.personal_accuracy == trainer.held_out_accuracy("crnn-lite", result.plugin)
    assert result.plugin_accuracy == trainer.held_out_accuracy("crnn-lite", PLUGIN)


@pytest.mark.parametrize("augment", [False, True])
def test_the_same_seed_trains_to_the_same_bytes(augment: bool) -> None:
    plan = plan_of(augment=augment, seed=5, optimizer="adamw")

    def trained(seed: int = 3, number: int = 1, plan: Plan = plan) -> tuple[bytes, bytes]:
        result = ran(trainer_of(device(20), seed), plan, number=number)
        return result.plugin.tobytes(), result.local.weights.tobytes()

    others = {trained(seed=4), trained(number=2), trained(plan=msgspec.structs.replace(plan, seed=6))}
    assert trained() == trained()
    assert trained() not in others and len(others) == 3


def test_what_was_given_is_not_changed() -> None:
    trainer = trainer_of(device(20))
    state, plugin = trainer.first_state(), PLUGIN.copy()
    before = state.weights.copy()
    trainer.run(plan_of(prior=1.0), 1, plugin, state)
    assert np.array_equal(plugin, PLUGIN) and np.array_equal(state.weights, before)


def test_mixed_is_adamw_for_the_local_model_and_plain_sgd_for_the_plug_in() -> None:
    trainer = trainer_of(device(16))
    mixed, adamw, sgd = (
        ran(trainer, plan_of(optimizer=optimizer, rate=0.1, local_rate=1e-3, decay=0.0, plugin_ce=1.0))
        for optimizer in ("mixed", "adamw", "sgd")
    )
    assert np.array_equal(mixed.local.weights, adamw.local.weights)
    assert distance(mixed.plugin - PLUGIN, sgd.plugin - PLUGIN) < 1e-4
    assert graph_optimizer(plan_of(optimizer="mixed", mode="supervised")) == "sgd"


# -- order, temperature, proximal term


def _orders(local_rate: float) -> list[RoundResult]:
    trainer = trainer_of(device(16), 1)
    orders = ("simultaneous", "alternating")
    return [ran(trainer, plan_of(order=order, rate=0.1, local_rate=local_rate)) for order in orders]


def test_the_alternating_plug_in_learns_from_the_local_models_new_weights() -> None:
    """The first step's local model is the same either way; the plug-in's teacher is not."""
    simultaneous, alternating = _orders(1.0)
    assert np.allclose(simultaneous.local.weights, alternating.local.weights, atol=1e-6)
    assert distance(simultaneous.plugin - PLUGIN, alternating.plugin - PLUGIN) > 1e-2


def test_without_a_step_of_the_local_model_the_order_does_not_matter() -> None:
    simultaneous, alternating = _orders(1e-9)
    assert distance(simultaneous.plugin - PLUGIN, alternating.plugin - PLUGIN) < 1e-4


def test_a_high_temperature_softens_what_the_models_learn_from_each_other() -> None:
    """Logits apart by d give a gradient of about d / (C T^2) at a high T: a hundredth at ten times the temperature."""
    trainer = trainer_of(device(16), 1)
    warm, hot = (
        np.linalg.norm(ran(trainer, plan_of(temperature=temperature, alpha=0.0, rate=0.1)).plugin - PLUGIN)
        for temperature in (10.0, 100.0)
    )
    assert warm / hot == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_the_proximal_term_holds_the_plug_in_to_what_was_received(mode: str) -> None:
    trainer = trainer_of(device(48))
    free, held = (
        np.linalg.norm(ran(trainer, plan_of(mode=mode, mu=mu, rate=0.05, epochs=4, plugin_ce=1.0)).plugin - PLUGIN)
        for mu in (0.0, 10.0)
    )
    assert held < 0.8 * free


def test_the_first_step_of_a_round_feels_no_proximal_term() -> None:
    """It starts at its anchor: mu (w - anchor) = 0."""
    free, held = (ran(trainer_of(device(16)), plan_of(mu=mu, plugin_ce=1.0)) for mu in (0.0, 50.0))
    assert np.allclose(free.plugin, held.plugin, atol=1e-7)


# -- when it goes wrong


def test_training_stops_between_two_batches() -> None:
    trainer, asked = trainer_of(device(48)), iter([False, False, True])
    with pytest.raises(TrainingStopped):
        trainer.run(plan_of(epochs=1000), 1, PLUGIN, trainer.first_state(), lambda: next(asked))
    assert next(asked, None) is None


def test_a_round_that_waited_between_two_batches_ends_like_one_that_did_not() -> None:
    trainer, control, asked = trainer_of(device(48)), RoundControl(OPEN, 60), []

    def interrupted() -> bool:
        asked.append(1)
        if len(asked) == 2:
            control.heed(Decision("wait", "It is hot.", "heat"))
            threading.Timer(0.05, control.heed, [OPEN]).start()
        return control()

    waited = trainer.run(plan_of(), 1, PLUGIN, trainer.first_state(), interrupted)
    undisturbed = ran(trainer, plan_of())
    assert control.waited > 0
    assert np.array_equal(waited.plugin, undisturbed.plugin)
    assert np.array_equal(waited.local.weights, undisturbed.local.weights)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_loss_that_is_not_finite_gives_the_round_up_and_leaves_the_state(value: float) -> None:
    data = device(20)
    data.train.energies[3] = value
    trainer = trainer_of(data)
    state = trainer.first_state()
    with pytest.raises(AuricleError, match="not finite"):
        trainer.run(plan_of(), 1, PLUGIN, state)
    assert np.array_equal(state.weights, trainer.first_state().weights)


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_weights_that_overflow_in_the_last_step_do_not_leave_the_device(mode: str) -> None:
    """One step: its loss is still finite, what it made of the weights is not."""
    slots = dict.fromkeys(("local.momentum", "plugin.momentum", "model.momentum"), np.full(LITE.size, 3e38, np.float32))
    plan = plan_of(mode=mode, rate=10.0, local_rate=10.0, momentum=0.9, keep_state=True)
    with pytest.raises(AuricleError, match="not finite"):
        trainer_of(device(16)).run(plan, 1, PLUGIN, LocalState(LITE.initial(1), slots))


def test_a_device_without_clips_trains_nothing_and_says_so() -> None:
    result = ran(trainer_of(device(0, 0)), plan_of())
    assert (result.steps, result.samples, result.held_out, result.personal_accuracy) == (0, 0, 0, None)
    assert math.isnan(result.loss)
    assert np.array_equal(result.plugin, PLUGIN)


# -- other clips


def test_a_trainer_goes_on_with_other_clips() -> None:
    trainer, other = trainer_of(device(20)), device(32, 9, seed=4)
    trainer.renew(other)
    result = ran(trainer, plan_of())
    assert (result.samples, result.held_out) == (32, 9)
    assert np.array_equal(result.plugin, ran(trainer_of(other), plan_of()).plugin)
