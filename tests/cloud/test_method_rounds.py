"""Methods with a half on devices in real rounds: their vectors go out, and come in where the owner allows it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tests.cloud.coordinator_site import DEVICES, PLAN, TASK, Site
from tests.cloud.site_runs import on_a_site, played
from tests.cloud.site_runs import runtime as runtime

from auricle.wire.tensors import digest, encode
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules import Rule
from auricle_learning.methods import METHODS, RULES, MethodSettings, get_rule
from auricle_learning.methods.method import Kept, Method, Needs, Sent, Trained, Vector
from auricle_learning.presets import Preset


@on_a_site
@pytest.mark.slow
async def test_the_variate_of_scaffold_is_the_mean_of_the_devices_own(site: Site) -> None:
    """With everybody in every round; c goes out with each model, and the plan names the method until a restart ends."""
    preset = Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("scaffold", {"lr": 0.5}))
    await played(site, 1, preset)
    second = site.coordinator(3, preset)
    await second.run()

    store = site.store()
    state = second.site.rule_state_after(store.models.current(TASK))
    lent = store.rounds.get(TASK, 3).vectors
    before = second.site.rule_state_after(store.models.get(TASK, 2))
    store.close()
    assert state is not None and before is not None
    own = [agent.rounds.local.variates["scaffold.c"] for agent in site.agents.values()]
    np.testing.assert_allclose(np.mean(own, axis=0), state.arrays["c"], atol=1e-5)
    assert np.abs(state.arrays["c"]).max() > 1e-4
    assert [(each.name, each.length, each.blob) for each in lent] == [
        ("c", 4 * before.arrays["c"].size, digest(encode(before.arrays["c"].astype(np.float32))))
    ]
    assert [done.counted for done in site.done] == [3, 3, 3]


def moves_of(cohort: Cohort) -> Aggregate:
    """FedAvg by what clients say that they moved, and not by their weights."""
    moves = np.stack([np.asarray(one, np.float64) for one in cohort.extras.vectors["moves"] if one is not None])
    assert len(moves) == len(cohort.ids) and "whole" not in cohort.extras.vectors
    return replace(get_rule("fedavg")(cohort), weights=(cohort.start + moves.mean(axis=0)).astype(np.float32))


def told_moves(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    return {"moves": trained.plugin - trained.received.plugin}, {}


@on_a_site
@pytest.mark.slow
async def test_a_round_of_creff_is_judged_with_its_own_classifier_and_publishes_fedavgs_model(site: Site) -> None:
    task, rng = site.pack.manifest.task, np.random.default_rng(3)
    clips = rng.normal(size=(40, task.frames, task.frontend.mels)).astype(np.float32)
    evaluator = OnnxEvaluator(site.pack, ValidationSet(clips, np.arange(40) % len(site.pack.labels)))
    preset = Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("creff", {"features": 5, "epochs": 3}))
    coordinator = site.coordinator(2, preset, evaluator=evaluator)
    site.start_agents(coordinator)
    for agent in site.agents.values():
        agent.rounds._trainer.settings = msgspec.structs.replace(agent.rounds._trainer.settings, gradients=True)
    await coordinator.run()

    store = site.store()
    row = store.models.current(TASK)
    state, published = coordinator.site.rule_state_after(row), coordinator.site.weights(row.blob)
    store.close()
    assert state is not None
    head = state.arrays["head"]
    judged = np.concatenate([published[: -head.size], head[:, :-1].ravel(), head[:, -1]]).astype(np.float32)
    ours, plain = (float(evaluator.scores(weights[None]).loss[0]) for weights in (judged, published))
    assert row.loss == pytest.approx(ours) != pytest.approx(plain)
    assert [done.evaluated is not None for done in site.done] == [True, True]
    assert np.array_equal(site.done[-1].judged, judged) and np.array_equal(site.done[-1].model, published)
    assert site.done[-1].report["evaluated"]


@on_a_site
@pytest.mark.slow
async def test_vectors_of_a_method_reach_its_rule_and_only_where_the_owner_lets_them(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = Needs(up=(Vector("moves", allowed_by="moves"), Vector("whole", required=False)))
    rule = Rule("moves", moves_of, needs=("steps",))
    monkeypatch.setitem(METHODS, "moves", Method(rule, needs, after=told_moves))
    monkeypatch.setitem(RULES, "moves", METHODS["moves"].rule_for_rounds)
    preset = Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("moves"))
    coordinator = site.coordinator(1, preset, quorum=0.6, patience=0.5, least_wait=0.5)
    site.start_agents(coordinator)
    for name, agent in site.agents.items():
        if name != DEVICES[0]:
            agent.rounds._trainer.settings = msgspec.structs.replace(agent.rounds._trainer.settings, vectors=("moves",))
    await coordinator.run()

    store = site.store()
    rows, failed = store.updates.counted(TASK, 1), store.rounds.report(TASK, 1)["failed"]
    store.close()
    size = coordinator.pack.plugin_table.size
    assert [[(header.name, header.length) for header in row.headers] for row in rows] == [[("moves", 4 * size)]] * 2
    assert list(failed) == [DEVICES[0]] and "moves" in failed[DEVICES[0]]
    assert site.done[0].counted == 2
    assert [each.name for each in coordinator.site.vectors_in(1) or ()] == ["moves", "whole"]
    monkeypatch.delitem(METHODS, "moves")  # as after its package was uninstalled
    assert coordinator.site.vectors_in(1) == ()
