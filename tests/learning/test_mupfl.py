"""MuPFL as a method: its three parts together, and a device's classifier that stays its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.learning.rule_cases import line
from tests.learning.toy import device
from tests.learning.toy_training import LITE, PACK, PLUGIN, plan_of, trainer_of

from auricle.errors import PackError
from auricle.packs.pack import load_pack
from auricle.wire.plan import Bavd, Plan
from auricle.wire.prior_knowledge import PriorKnowledge, Tuning
from auricle.wire.tensors import Flat
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.methods import METHODS, MethodSettings, get_method, get_rule
from auricle_learning.methods.method import NO_CHANGES, Received, Trained
from auricle_learning.presets import Preset
from auricle_learning.training.mechanism import LentData
from auricle_learning.training.prior_knowledge import tuned

MUPFL = METHODS["mupfl"]
CLASSES, WIDTH = LITE.specs[-2].shape
HEAD = CLASSES * (WIDTH + 1)


def told(plan: Plan, **options: Any) -> Plan:
    return get_method("mupfl", **options).rule_for_rounds.plan_for(plan)


def vector(*values: float) -> Flat:
    return np.array(values, np.float32)


def test_a_round_begins_with_the_fleets_body_and_the_devices_own_classifier() -> None:
    received, kept = Received(told(Plan()), vector(1, 2, 3, 4, 5), head=2), {"head": vector(8, 9)}

    begin = MUPFL.before(received, kept).begin
    _, stays = MUPFL.after(Trained(received, vector(6, 7, 8, 9, 10), 1), kept)

    assert begin is not None and begin.tolist() == [1, 2, 3, 8, 9]
    assert {name: values.tolist() for name, values in stays.items()} == {"head": [9, 10]}
    assert MUPFL.before(received, {}) is NO_CHANGES, "its first round begins with the fleet's"
    assert MUPFL.before(received, {"head": vector(1, 2, 3)}) is NO_CHANGES, "of another model"
    with_groups = replace(received, plan=told(Plan(), start="cluster"))
    assert MUPFL.before(with_groups, kept) is NO_CHANGES
    assert MUPFL.after(Trained(with_groups, vector(6, 7, 8, 9, 10), 1), kept) == ({}, {})


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_the_own_classifier_is_tuned_before_it_is_trained(mode: str) -> None:
    """At a rate of nearly nothing what is trained is what training began with."""
    plan = told(plan_of(mode=mode, rate=1e-9, plugin_ce=1.0), bavd=False)
    drawn = np.random.default_rng(2)
    own, features = drawn.normal(size=HEAD).astype(np.float32), drawn.normal(size=(CLASSES, 5, WIDTH))
    tuning = Tuning(features=5, epochs=20, rate=0.1)
    prior = PriorKnowledge(PLUGIN[-HEAD:], tuple(range(CLASSES)), features.astype(np.float32), tuning)
    trainer = trainer_of(device(18))
    state = replace(trainer.first_state(), variates={"mupfl.head": own})

    plain, after = (trainer.run(plan, 1, PLUGIN, state, lent=LentData(known)) for known in (None, prior))

    begin = np.concatenate([PLUGIN[:-HEAD], own])
    assert plain.plugin == pytest.approx(begin, abs=1e-6)
    assert after.plugin == pytest.approx(tuned(begin, prior), abs=1e-6)
    assert np.array_equal(after.local.variates["mupfl.head"], after.plugin[-HEAD:])
    assert after.loss == plain.loss, "that of the model as it was received"


def test_the_groups_are_acmus_and_models_of_theirs_are_made_only_to_start_with() -> None:
    cohort = line([1.0, 2.0, -3.0, -3.0], samples=[3, 1, 0, 4])
    acmu, fleet, cluster = (get_rule(name, **told)(cohort) for name, told in (
        ("acmu", {}), ("mupfl", {}), ("mupfl", {"start": "cluster"})
    ))  # fmt: skip

    assert acmu.clusters is not None and fleet.clusters is not None and cluster.clusters is not None
    assert fleet.weights.tolist() == cluster.weights.tolist() == acmu.weights.tolist()
    assert fleet.clusters.labels == cluster.clusters.labels == acmu.clusters.labels == (0, 0, 1, 1)
    assert fleet.clusters.models is None
    assert cluster.clusters.models is not None and acmu.clusters.models is not None
    assert cluster.clusters.models.tolist() == acmu.clusters.models.tolist()


def test_its_features_are_those_of_acmu_with_pkcf() -> None:
    rng = np.random.default_rng(1)
    size = 2 + 3 * 4 + 3
    cohort = line([0.0] * 3)
    extras = replace(cohort.extras, gradients=[rng.normal(size=(3, size - 2)) for _ in range(3)])
    start = rng.normal(size=size)
    layers = (replace(cohort.layers[0], slices=(slice(0, size),)),)
    cohort = replace(cohort, start=start, weights=start + rng.normal(size=(3, size)), layers=layers, extras=extras)

    ours, theirs = get_rule("mupfl", pkcf_features=4)(cohort), get_rule("acmu", pkcf=True, pkcf_features=4)(cohort)

    assert ours.state is not None and theirs.state is not None
    assert (ours.state.rule, theirs.state.rule) == ("mupfl", "acmu")
    assert ours.state.arrays["features"].tobytes() == theirs.state.arrays["features"].tobytes()
    assert ours.synthesis == theirs.synthesis
    after = replace(cohort, extras=replace(extras, state=RuleState("acmu", theirs.state.arrays, 1)))
    assert get_rule("mupfl", pkcf_features=4)(after).state.step == 1, "the state of another rule is not used"  # type: ignore[union-attr]


def test_devices_drop_activations_send_maps_and_tune_unless_told_otherwise() -> None:
    whole, bare = told(Plan()), told(Plan(), bavd=False)

    assert (whole.bavd, whole.method) == (Bavd(maps=True), "mupfl")
    assert told(Plan(), maps=False).bavd == Bavd()
    assert (bare.bavd, bare.method) == (msgspec.UNSET, "mupfl")
    assert get_rule("mupfl").tuning == Tuning(features=100, epochs=50, rate=0.01)
    assert get_rule("mupfl", pkcf=False).tuning is None


def test_a_pack_without_such_layers_is_refused_with_the_command_that_builds_one() -> None:
    preset = Preset(Plan(mode="supervised"), MethodSettings("fedavg"))

    for pack, named in ((PACK, "NAME"), (load_pack("digits"), "digits")):
        with pytest.raises(PackError, match=f"auricle export build {named} --bavd --weights shipped"):
            preset.with_method(MethodSettings("mupfl")).require_pack(pack)
        preset.with_method(MethodSettings("mupfl", {"bavd": False})).require_pack(pack)
