"""PKCF at the coordinator: features made of gradients, kept with the model, and what is lent of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.cloud.coordinator_site import PLAN
from tests.cloud.site_runs import runtime as runtime
from tests.learning.rule_cases import line

from auricle.errors import DataError, PackError, SettingsError
from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import load_pack
from auricle.wire.prior_knowledge import PriorKnowledge, Tuning, class_gradient, gradients_size, split_classifier
from auricle_cloud.settings import Detection, Privacy, RunSettings, SecureSum
from auricle_learning.aggregation.cohort import Cohort, CohortError, Layer
from auricle_learning.aggregation.extras import Extras, RuleState
from auricle_learning.aggregation.feature_synthesis import first_features, lent_after, match_loss_grad
from auricle_learning.aggregation.next_model import next_model
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.aggregation.server_state import MAGIC, ServerState
from auricle_learning.methods import MethodSettings, get_rule
from auricle_learning.presets import Preset
from auricle_learning.runtimes import StepRuntime

CLASSES, WIDTH, EACH = 3, 4, 6
HEAD = CLASSES * WIDTH + CLASSES
START = np.random.default_rng(4).normal(size=2 + HEAD).astype(np.float32)
RULE = get_rule("acmu", pkcf=True, pkcf_features=EACH)


def gradients(*labels: int, seed: int = 0) -> Any:
    """(C, C d + C) of a client that has clips of these classes."""
    rng, (weight, bias) = np.random.default_rng(seed), split_classifier(START[-HEAD:], CLASSES)
    found = np.zeros((CLASSES, HEAD))
    for label in labels:
        found[label] = class_gradient(rng.normal(size=(7, WIDTH)) + label, label, weight, bias)
    return found


def cohort(*rows: Any, state: RuleState | None = None) -> Cohort:
    """A round of so many clients, with their gradients."""
    return Cohort.build(
        ids=[f"c{k}" for k in range(len(rows))],
        weights=np.stack([START + k for k in range(len(rows))]),
        samples=[1] * len(rows),
        losses=[0.0] * len(rows),
        start=START,
        layers=(Layer("all", (slice(0, START.size),)),),
        extras=Extras(gradients=rows, state=state),
    )


def test_features_come_to_have_the_gradients_of_all_clients_and_go_on_from_round_to_round() -> None:
    first = RULE(cohort(gradients(0), gradients(0, 2, seed=1), np.zeros((CLASSES, HEAD))))

    assert first.state is not None and first.synthesis is not None
    features, found = first.state.arrays["features"], first.synthesis
    assert (found.classes, found.clients) == ((0, 2), 2)
    assert found.after < 0.5 * found.before
    targets = {0: (gradients(0)[0] + gradients(0, 2, seed=1)[0]) / 2, 2: gradients(0, 2, seed=1)[2]}
    loss, _ = match_loss_grad(features, targets, *split_classifier(START[-HEAD:], CLASSES))
    assert found.after == pytest.approx(loss)
    untouched = first_features(CLASSES, WIDTH, m=EACH)[1].astype(np.float32)
    assert features[1].tobytes() == untouched.tobytes(), "nobody has this class"
    assert first.state.arrays["known"].tolist() == [[1, 0, 1]]

    second = RULE(cohort(gradients(1), state=first.state))
    assert second.state is not None
    assert second.state.arrays["known"].tolist() == [[1, 1, 1]]
    assert second.state.arrays["features"][0].tobytes() == features[0].tobytes()
    assert second.state.step == 2
    fewer = get_rule("acmu", pkcf=True, pkcf_features=2)(cohort(gradients(1), state=first.state))
    assert fewer.state is not None and fewer.state.arrays["known"].tolist() == [[0, 1, 0]]


def test_a_round_without_gradients_keeps_what_there_is_and_the_rule_without_the_option_has_none() -> None:
    state = RULE(cohort(gradients(0))).state

    none, empty = RULE(cohort(np.zeros((CLASSES, HEAD)), state=state)), RULE(line([], 0.0, state=state))
    assert none.state is empty.state is state
    assert none.synthesis is empty.synthesis is None
    assert get_rule("acmu")(cohort(gradients(0), state=state)).state is None
    assert np.array_equal(RULE(cohort(gradients(0))).weights, get_rule("acmu")(cohort(gradients(0))).weights)
    with pytest.raises(CohortError, match=r"gradients of a client have the shape \(3, 16\)"):
        RULE(cohort(np.ones((CLASSES, HEAD + 1))))


def test_a_match_that_fails_or_leads_away_leaves_the_features_as_they_were_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matched = RULE(cohort(gradients(0))).state
    assert matched is not None
    features, known = matched.arrays["features"], np.ones((1, CLASSES))
    for size, rate, says in ((1e300, 0.1, "values that are not finite"), (1.0, 1e4, "the match led away from")):
        monkeypatch.setattr("auricle_learning.aggregation.feature_synthesis.MATCH_RATE", rate)
        state = RuleState("acmu", {"features": features.astype(np.float64) * size, "known": known})

        found = RULE(cohort(gradients(0), state=state))

        assert found.state is state and found.synthesis is None
        (said,) = found.warnings
        assert "stay as they were" in said and says in said


def test_what_is_lent_is_the_fleets_classifier_with_the_classes_that_are_known() -> None:
    table, tuning = load_pack("digits").plugin_table, Tuning(features=EACH, epochs=5, rate=0.1)
    classes, width = table.specs[-2].shape
    model = table.initial(3)
    features = np.random.default_rng(0).normal(size=(classes, EACH, width))
    known = np.zeros((1, classes))
    known[0, [1, 3]] = 1.0
    state = RuleState("acmu", {"features": features, "known": known})

    lent = PriorKnowledge.from_bytes(lent_after(state, model, table, tuning).to_bytes(), classes, width)

    assert lent.labels == (1, 3)
    assert np.array_equal(lent.features, features[[1, 3]].astype(np.float32))
    assert np.array_equal(lent.classifier, model[-classes * (width + 1) :])
    for nothing in (None, RuleState("acmu", {"features": features[:, :2], "known": known})):
        assert lent_after(nothing, model, table, tuning).features.shape == (0, EACH, width)


def test_tables_and_the_optimizer_beside_them_are_kept() -> None:
    state = RULE(cohort(gradients(0, 1))).state
    assert state is not None
    made = next_model(cohort(gradients(0, 1)), RULE, OptimizerSettings(kind="momentum", lr=1.0, beta1=0.5), None)
    assert made.kept is not None and made.optimizer is not None

    both = ServerState.from_bytes(made.kept, START.size)
    read, optimizer = both.rule, both.optimizer
    assert read is not None
    assert read.arrays["features"].dtype == np.float32, "half the disk"
    assert len(ServerState(rule=read).to_bytes() or b"") == len(ServerState(rule=state).to_bytes() or b"")
    assert all(np.array_equal(read.arrays[name], state.arrays[name]) for name in ("features", "known"))
    assert optimizer is not None and np.array_equal(optimizer.m, made.optimizer.m)
    older = MAGIC + msgspec.msgpack.encode(["acmu", 1, {"c": np.ones(START.size).tobytes()}])
    for damaged in (made.kept[:-1], MAGIC + b"\x91" * 5000, older):
        with pytest.raises(DataError, match="damaged"):
            ServerState.from_bytes(damaged, START.size)
    whole = {"rule": "acmu", "step": 1, "arrays": {"c": np.ones(START.size).tobytes()}}
    kept = ServerState.from_bytes(MAGIC + msgspec.msgpack.encode(whole), START.size).rule
    assert kept is not None and kept.arrays["c"].shape == START.shape
    with pytest.raises(DataError, match="not one of a model"):
        ServerState.from_bytes(MAGIC + msgspec.msgpack.encode({**whole, "shapes": {"c": [2, 3]}}), START.size)


def test_the_option_says_how_devices_tune_and_what_follows_their_updates(runtime: StepRuntime, tmp_path: Path) -> None:
    pack, told = runtime.pack, {"pkcf": True, "pkcf_features": 7, "pkcf_epochs": 3, "pkcf_rate": 0.2}
    classes, width = pack.plugin_table.specs[-2].shape
    plain, asked = (
        Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("acmu", options)) for options in ({}, told)
    )

    assert asked.plan == plain.plan == PLAN, "what a round's plan says is as it was"
    assert get_rule("acmu", **told).tuning == Tuning(features=7, epochs=3, rate=0.2)
    assert get_rule("acmu").tuning is get_rule("fedavg").tuning is None
    due = [(each.name, each.size, each.required) for each in asked.declared(pack)]
    assert due == [("gradients", gradients_size(classes, width), False)]
    assert plain.declared(pack) == ()
    classifier, features = np.ones(classes * (width + 1), np.float32), np.ones((classes, 7, width), np.float32)
    whole = PriorKnowledge(classifier, tuple(range(classes)), features, Tuning(features=7, epochs=3, rate=0.2))
    assert len(whole.to_bytes()) <= asked.lent_with(pack) < len(whole.to_bytes()) + 200
    assert plain.lent_with(pack) == 0
    with pytest.raises(SettingsError, match="pkcf_features is 1001; it must be a whole number from 1 to 1000"):
        get_rule("acmu", pkcf=True, pkcf_features=1001)


@pytest.mark.parametrize(("largest", "noun"), [(100_000, "pkcf_features"), (9_000, "bytes of gradients")])
def test_features_beyond_what_devices_fetch_are_refused(
    largest: int, noun: str, monkeypatch: pytest.MonkeyPatch, runtime: StepRuntime
) -> None:
    monkeypatch.setattr("auricle_learning.presets.LARGEST_BLOB", largest)
    with pytest.raises(PackError, match=noun):
        Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("acmu", {"pkcf": True})).require_pack(
            runtime.pack
        )


def test_it_is_refused_where_updates_are_hidden_or_come_one_by_one(tmp_path: Path) -> None:
    preset = Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("acmu", {"pkcf": True}))
    for changes, says in (
        ({"mode": "async"}, "needs synchronous rounds"),
        ({"privacy": Privacy(clip=1.0)}, "Noise on devices needs the method fedavg"),
        ({"secure_sum": SecureSum(on=True)}, "A secure sum needs the method fedavg"),
        ({"detection": Detection()}, 'which "acmu" cannot'),
    ):
        with pytest.raises(SettingsError, match=says):
            RunSettings("f", BrokerAddress("h"), tmp_path, preset=preset, **changes)  # type: ignore[arg-type]
