"""Methods whose round has passes of its own, or trains another model than the plug-in."""

from __future__ import annotations

from copy import copy
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.learning.rule_cases import line, whole_round
from tests.learning.toy import device
from tests.learning.toy_training import LITE, PACK, PLUGIN, RUNTIME, plan_of, ran, trainer_of

from auricle.errors import AuricleError, PackError
from auricle.wire.plan import Plan
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import CohortError
from auricle_learning.methods import METHODS, get_method
from auricle_learning.methods.method import JobChanges, Received, Trained
from auricle_learning.methods.passes import head_size, plan_of_pass, require_graphs
from auricle_learning.methods.projection import lifted, projected, projection
from auricle_learning.methods.vectors import declared, lent_sizes
from auricle_learning.training.mechanism import LentData
from auricle_learning.training.round_result import RoundResult
from auricle_learning.training.train import Trainer

HEAD = head_size(PACK)
C = len(PACK.labels)


def plan_with(name: str, options: dict[str, Any] | None = None, **changes: Any) -> Plan:
    plan = plan_of(**{"mode": "supervised", "rate": 0.5, "local_rate": 0.5, **changes})
    return get_method(name, **(options or {})).rule_for_rounds.plan_for(plan)


def rounds(trainer: Trainer, plan: Plan, count: int, vectors: dict[str, Any] | None = None) -> list[RoundResult]:
    state, results = trainer.first_state(), []
    for number in range(1, count + 1):
        results.append(trainer.run(plan, number, PLUGIN, state, lent=LentData(vectors=vectors or {})))
        state = results[-1].local
    return results


def test_the_passes_of_a_round_stand_in_their_order() -> None:
    last = JobChanges(trains="local")
    middle = JobChanges(trains="personal", then=(last,))

    assert JobChanges(then=(middle,)).passes[1:] == (middle, last)


def test_a_personal_pass_is_supervised_and_the_devices_own_model_has_its_own_rate() -> None:
    plan = Plan(mode="mutual", epochs=4, optimizer="mixed", rate=0.5, local_rate=0.25, mu=1.0, prior=1.0)

    own, personal = (plan_of_pass(plan, JobChanges(trains=each, epochs=2)) for each in ("local", "personal"))

    assert (own.mode, own.optimizer, own.rate, own.epochs) == ("supervised", "adamw", 0.25, 2)
    assert (personal.mode, personal.optimizer, personal.rate) == ("supervised", "mixed", 0.5)
    assert (own.mu, own.prior) == (0.0, 0.0)
    assert plan_of_pass(plan, JobChanges()) == plan


# -- Ditto


def test_ditto_without_a_pull_trains_a_second_plug_in_that_stays() -> None:
    """One batch an epoch: its order says nothing, so that v is w_k in the first round; the second begins with v."""
    trainer = trainer_of(device(16))
    first, second = rounds(trainer, plan_with("ditto", {"lam": 0.0}, epochs=2), 2)
    plain = ran(trainer, plan_of(mode="supervised", rate=0.5, epochs=2))

    assert np.array_equal(first.plugin, plain.plugin), "the fleet's track is FedAvg's"
    np.testing.assert_allclose(first.local.variates["ditto.personal"], first.plugin, atol=2e-6)
    further = trainer.run(plan_of(mode="supervised", rate=0.5, epochs=2), 2, first.plugin, trainer.first_state())
    np.testing.assert_allclose(second.local.variates["ditto.personal"], further.plugin, atol=1e-4)
    assert (first.steps, first.vectors) == (2, {})
    personal = second.local.variates["ditto.personal"]
    assert second.personal_accuracy == trainer.held_out_accuracy("crnn-lite", personal)


def test_ditto_pulls_by_lambda_times_the_distance() -> None:
    """The second of two steps of rate 0.5 has λ (v - w^t) besides, with the same gradient of the loss."""
    trainer = trainer_of(device(16))
    free, pulled = (
        rounds(trainer, plan_with("ditto", {"lam": lam}, epochs=2), 1)[0].local.variates["ditto.personal"]
        for lam in (0.0, 0.25)
    )
    once = rounds(trainer, plan_with("ditto", epochs=1), 1)[0].local.variates["ditto.personal"]

    np.testing.assert_allclose(free - pulled, 0.5 * 0.25 * (once - PLUGIN), atol=1e-5)


# -- FedRep


def test_fedrep_trains_the_classifier_and_then_the_body_and_sends_the_body() -> None:
    trainer = trainer_of(device(16))
    first, second = rounds(trainer, plan_with("fedrep", {"head_epochs": 2}), 2)

    assert np.array_equal(first.plugin[-HEAD:], PLUGIN[-HEAD:]), "the classifier does not leave"
    assert not np.array_equal(first.plugin[:-HEAD], PLUGIN[:-HEAD])
    assert first.steps == 2 + 1
    head = first.local.variates["fedrep.head"]
    assert (head.shape, np.array_equal(head, PLUGIN[-HEAD:])) == ((HEAD,), False)
    whole = np.concatenate([first.plugin[:-HEAD], head])
    assert first.personal_accuracy == trainer.held_out_accuracy("crnn-lite", whole)
    assert not np.array_equal(second.local.variates["fedrep.head"], head), "it goes on from its own"


def test_the_judge_hears_fedreps_body_with_the_devices_own_classifier() -> None:
    (result,) = rounds(trainer_of(device(16)), plan_with("fedrep"), 1)
    (plain,) = rounds(trainer_of(device(16)), plan_with("ditto"), 1)

    assert result.trained is not None
    assert np.array_equal(result.trained[-HEAD:], result.local.variates["fedrep.head"])
    assert np.array_equal(result.trained[:-HEAD], result.plugin[:-HEAD])
    assert plain.trained is None, "what travels is what was trained"


def test_fedrep_freezes_by_turns_from_its_own_classifier() -> None:
    plan = plan_with("fedrep", epochs=3)
    received = Received(plan, np.arange(6, dtype=np.float32), head=2)

    first, second = METHODS["fedrep"].before(received, {"head": np.array([7, 8], np.float32)}).passes

    assert first.begin is not None
    assert first.begin.tolist() == [0, 1, 2, 3, 7, 8]
    assert (first.vectors["keep"].tolist(), first.epochs) == ([0, 0, 0, 0, 1, 1], 2)
    assert (second.vectors["keep"].tolist(), second.epochs, second.begin) == ([1, 1, 1, 1, 0, 0], 1, None)
    other = METHODS["fedrep"].before(received, {"head": np.ones(3, np.float32)})
    assert other.begin is not None
    assert other.begin.tolist() == received.plugin.tolist(), "a classifier of another model is not used"


def test_fedrep_at_the_coordinator_keeps_the_classifier_whatever_is_sent() -> None:
    cohort = whole_round(4)
    result, mean = METHODS["fedrep"].rule(cohort), METHODS["fedavg"].rule(cohort)
    head = [span for layer in cohort.layers if layer.name == "front" for span in layer.slices]  # ends the model

    for span in head:
        assert np.array_equal(result.weights[span], cohort.start[span])
    assert np.array_equal(result.weights[3:5], mean.weights[3:5])
    assert result.share.sum(axis=0).tolist() == pytest.approx([0.0, 1.0])


# -- local training alone


def test_local_training_is_supervised_training_of_the_devices_own_model() -> None:
    trainer = trainer_of(device(16))
    (result,) = rounds(trainer, plan_with("local"), 1)
    own = trainer.first_state().weights
    plain = trainer.run(plan_of(mode="supervised", rate=0.5), 1, own, trainer.first_state())

    assert np.array_equal(result.plugin, PLUGIN), "nothing that was learnt leaves"
    assert np.array_equal(result.local.weights, plain.plugin), "the toy's own model is of the plug-in's architecture"
    assert (result.steps, result.vectors, result.local.variates) == (1, {}, {})
    assert result.personal_accuracy == trainer.held_out_accuracy(trainer.architecture, result.local.weights)


def test_nothing_that_is_sent_moves_the_model_of_local_training() -> None:
    cohort = whole_round(3)
    assert METHODS["local"].rule(cohort).weights.tobytes() == cohort.start.tobytes()


# -- FedKAD


def _features(trainer: Trainer, weights: Any) -> Any:
    frontend_pieces = list(trainer.views.pieces(trainer.data.train))
    return np.concatenate([RUNTIME.embeddings("crnn-lite", weights, piece) for piece in frontend_pieces])


def test_fedkad_sends_class_means_and_counts_and_no_weights() -> None:
    trainer = trainer_of(device(16))
    width = LITE.specs[-2].shape[1]
    plan = plan_with("fedkad", {"projection": width})
    nothing = {"means": np.zeros(C * width, np.float32), "valid": np.zeros(C, np.float32)}
    trainer.settings = msgspec.structs.replace(trainer.settings, vectors=("means",))

    (result,) = rounds(trainer, plan, 1, nothing)
    local, targets = rounds(trainer, plan_with("local"), 1)[0], trainer.data.train.targets

    np.testing.assert_allclose(result.local.weights, local.local.weights, atol=1e-6, err_msg="no class is valid yet")
    assert np.array_equal(result.plugin, PLUGIN)
    seen = _features(trainer, result.local.weights)
    expected = np.stack([seen[targets == label].mean(axis=0) for label in range(C)])
    np.testing.assert_allclose(result.vectors["means"].reshape(C, width), expected, atol=1e-6)
    assert result.vectors["counts"].tolist() == np.bincount(targets, minlength=C).tolist()
    trainer.settings = msgspec.structs.replace(trainer.settings, vectors=())
    assert rounds(trainer, plan, 1, nothing)[0].vectors == {}, "only where the owner allows it"


def test_fedkad_holds_features_to_the_fleets_means() -> None:
    trainer, width = trainer_of(device(16)), LITE.specs[-2].shape[1]
    means = np.random.default_rng(3).uniform(0, 0.5, (C, width)).astype(np.float32)
    vectors = {"means": means.ravel(), "valid": np.ones(C, np.float32)}

    def away(beta: float) -> float:
        plan = plan_with("fedkad", {"projection": width, "beta": beta}, epochs=10, local_rate=0.1)
        (result,) = rounds(trainer, plan, 1, vectors)
        return float(np.mean((_features(trainer, result.local.weights) - means[trainer.data.train.targets]) ** 2))

    assert away(20.0) < 0.9 * away(0.0)


def test_fedkad_at_the_coordinator_by_hand() -> None:
    """Class 0: (1 · 2 + 3 · 6) / 4 = 5; class 1 of one client; class 2 of nobody keeps what it was."""
    vectors = {
        "means": [np.array([2.0, 8.0, 0.0]), np.array([6.0, 0.0, 0.0])],
        "counts": [np.array([1.0, 2.0, 0.0]), np.array([3.0, 0.0, 0.0])],
    }
    rule = get_method("fedkad", projection=1)
    first = rule.aggregate(line([1.0, 2.0], vectors=vectors))
    vectors["counts"] = [np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0])]
    vectors["means"] = [np.array([0.0, 0.0, 9.0]), np.array([0.0, 0.0, 0.0])]
    second = rule.aggregate(line([1.0, 2.0], vectors=vectors), first.state)

    assert first.aggregate.weights.tolist() == [0.0]
    assert (first.send["means"].tolist(), first.send["valid"].tolist()) == ([5.0, 8.0, 0.0], [1.0, 1.0, 0.0])
    assert (second.send["means"].tolist(), second.send["valid"].tolist()) == ([5.0, 8.0, 9.0], [1.0, 1.0, 1.0])
    even = get_method("fedkad", projection=1, weighting="uniform")
    vectors["counts"], vectors["means"] = [np.array([1.0]), np.array([3.0])], [np.array([2.0]), np.array([6.0])]
    assert even.aggregate(line([1.0, 2.0], vectors=vectors)).send["means"].tolist() == [4.0]


@pytest.mark.parametrize("size", [1, 3])
def test_fedkad_begins_anew_with_another_common_space_or_other_classes(size: int) -> None:
    """A mean of 0 that no client has would be what devices hold their features to."""
    first = {"means": [np.full(4, 5.0)], "counts": [np.array([1.0, 1.0])]}
    state = get_method("fedkad", projection=2).aggregate(line([1.0], vectors=first)).state
    then = {"means": [np.full(2 * size, 7.0)], "counts": [np.array([0.0, 1.0])]}
    other = {"means": [np.full(6, 7.0)], "counts": [np.array([0.0, 1.0, 0.0])]}

    space = get_method("fedkad", projection=size).aggregate(line([1.0], vectors=then), state)
    classes = get_method("fedkad", projection=2).aggregate(line([1.0], vectors=other), state)

    assert space.send["valid"].tolist() == [0.0, 1.0]
    assert classes.send["valid"].tolist() == [0.0, 1.0, 0.0]


def test_fedkad_refuses_clients_of_different_classes() -> None:
    vectors = {"means": [np.ones(2), np.ones(3)], "counts": [np.ones(2), np.ones(3)]}
    with pytest.raises(CohortError, match="different numbers"):
        get_method("fedkad", projection=1).aggregate(line([1.0, 2.0], vectors=vectors))


def test_a_device_that_claims_many_clips_of_a_class_counts_by_its_bounded_samples() -> None:
    """Three devices of ten clips, one says 10^6 of the class: it counts with ten, as the others."""
    vectors = {
        "means": [np.array([m]) for m in (1.0, 2.0, 9.0)],
        "counts": [np.array([n]) for n in (10.0, 10.0, 1e6)],
    }
    rule = get_method("fedkad", projection=1).rule
    state = BoundedRule(rule)(line([1.0, 2.0, 3.0], samples=[10, 10, 10], vectors=vectors)).state

    assert state is not None
    assert state.arrays["means"].tolist() == [[pytest.approx(4.0)]]


@pytest.mark.parametrize(
    "vectors", [{}, {"means": [None], "counts": [None]}, {"means": [np.ones(3)], "counts": [np.ones(2)]}]
)
def test_fedkad_refuses_means_that_do_not_fit(vectors: dict[str, Any]) -> None:
    with pytest.raises(CohortError):
        get_method("fedkad", projection=1).aggregate(line([1.0], vectors=vectors))


@pytest.mark.parametrize(("size", "width"), [(64, 128), (64, 56), (64, 64), (3, 7)])
def test_the_common_space_keeps_what_it_can(size: int, width: int) -> None:
    drawn = np.random.default_rng(1)
    common, features = drawn.standard_normal((5, size)), drawn.standard_normal((5, width))

    assert projection(size, width) is projection(size, width)
    if width >= size:
        np.testing.assert_allclose(projected(lifted(common, features), size), common, atol=1e-12)
    else:
        np.testing.assert_allclose(lifted(projected(features, size), 0 * features), features, atol=1e-12)
    np.testing.assert_allclose(lifted(projected(features, size), features), features, atol=1e-12)


# -- packs


def test_a_pack_without_a_methods_step_graph_is_refused_with_the_command() -> None:
    without = [graph for graph in PACK.manifest.graphs if graph.kind != "distill"]
    pack = copy(PACK)
    pack.manifest = msgspec.structs.replace(PACK.manifest, graphs=tuple(without))
    plan, method = plan_with("fedkad"), get_method("fedkad")

    require_graphs(PACK, plan, method, {"crnn-lite"})
    with pytest.raises(
        PackError, match=r"no distill step graph of crnn-lite for sgd: .* fedkad .* auricle export build"
    ):
        require_graphs(pack, plan, method, {"crnn-lite"})
    require_graphs(pack, plan_with("local"), get_method("local"), {"crnn-lite"})


def test_a_device_keeps_nothing_of_a_local_round() -> None:
    received = Received(plan_with("local"), np.zeros(3, np.float32))
    trained = Trained(received, np.ones(3, np.float32), 1)

    assert METHODS["local"].after(trained, {}) == ({}, {})
    assert METHODS["local"].travels(trained).tolist() == [0, 0, 0]


# -- a plan that does not say all


@pytest.mark.parametrize("name", ["ditto", "fedrep", "fedkad", "feddc", "scaffold", "mupfl"])
def test_an_option_that_a_plan_leaves_out_has_its_default(name: str) -> None:
    """A coordinator of another version, or a hostile one, need not say what this version reads."""
    whole = plan_with(name, {"bavd": False, "maps": False} if name == "mupfl" else None)
    said = {"bavd": False, "maps": False} if name == "mupfl" else {}
    bare = msgspec.structs.replace(whole, options=said)
    vectors = {each: np.zeros(size, np.float32) for each, size in lent_sizes(whole, PACK).items()}

    assert lent_sizes(bare, PACK) == lent_sizes(whole, PACK)
    assert [each[:3] for each in declared(bare, PACK, gradients=False)] == [
        each[:3] for each in declared(whole, PACK, gradients=False)
    ]
    told, left_out = (rounds(trainer_of(device(16)), plan, 1, vectors)[0] for plan in (whole, bare))
    assert np.array_equal(told.plugin, left_out.plugin)


def test_a_round_without_the_vectors_of_its_method_is_refused_in_a_sentence() -> None:
    with pytest.raises(AuricleError, match="The method fedkad needs the vector means"):
        rounds(trainer_of(device(16)), plan_with("fedkad"), 1)
