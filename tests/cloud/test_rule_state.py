"""A rule with a state of its own in real rounds: kept with the model, it survives a restart of the coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import sqlalchemy as sa
from tests.cloud.coordinator_site import FLEET, LPA, PLAN, TASK, Site
from tests.cloud.site_runs import on_a_site, played
from tests.cloud.site_runs import runtime as runtime
from tests.core import tiny_pack

from auricle.errors import PackError, SettingsError
from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.graph_interface import step_inputs, step_outputs
from auricle.wire.plan import Bavd
from auricle.wire.tensors import encode
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.rounds.read_cohort import cohort_of
from auricle_cloud.settings import Buffer, Detection, RunSettings
from auricle_cloud.storage import schema
from auricle_learning.aggregation.extras import Extras
from auricle_learning.aggregation.server_state import MAGIC, ServerState
from auricle_learning.methods import MethodSettings, get_rule
from auricle_learning.presets import PRACTICAL, Preset, get_preset
from auricle_learning.runtimes import StepRuntime

FEDOPT = Preset(PLAN, MethodSettings("fedopt", {"variant": "yogi", "lr": 0.05}))


def again(coordinator: Coordinator, rows: list[Any], rounds: int) -> tuple[list[bytes], Any]:
    """The models of all rounds and the last state, by the rule alone from what was counted."""
    table, preset = coordinator.pack.plugin_table, coordinator.settings.preset
    weights, state, models = table.initial(coordinator.settings.seed), None, []
    for number in range(1, rounds + 1):
        counted = [row for row in rows if row.round == number]
        extras = Extras(state=state, steps=np.array([row.steps for row in counted], float), rate=PLAN.rate)
        rule = preset.method.get_rule()
        made = rule(cohort_of(table, weights, counted, coordinator.blobs, extras=extras))
        weights, state = np.asarray(made.weights, np.float32), made.state
        models.append(encode(weights))
    return models, state


@pytest.mark.slow
@pytest.mark.parametrize("killed_in", ["closing", "aggregated"])
@on_a_site
async def test_the_moments_survive_a_kill_and_a_restart(site: Site, killed_in: str) -> None:
    await played(site, 2, FEDOPT, keep=True)
    store = site.store()
    with store.database.writing() as tx:  # as a kill leaves it: before the commit of the second round, or after it
        tx.execute(sa.update(schema.rounds).where(schema.rounds.c.round == 2).values(state=killed_in))
        if killed_in == "closing":
            tx.execute(sa.delete(schema.models).where(schema.models.c.version == 2))
            tx.execute(sa.update(schema.tasks).values(current=1))
    store.close()

    second = await played(site, 3, FEDOPT, agents=(), keep=True)

    store = site.store()
    rows = [row for number in (1, 2, 3) for row in store.updates.counted(TASK, number)]
    current = store.models.current(TASK)
    store.close()
    models, state = again(second, rows, 3)
    assert [encode(done.model) for done in site.done[-2:]] == models[1:]
    saved = second.blobs.get(str(current.optimizer))
    assert saved == ServerState(rule=state).to_bytes()
    assert state.step == 3


@on_a_site
async def test_fednova_is_told_the_steps_of_each_device(site: Site) -> None:
    coordinator = await played(site, 1, Preset(PLAN, MethodSettings("fednova")), keep=True)

    store = site.store()
    rows = store.updates.counted(TASK, 1)
    report = store.rounds.report(TASK, 1)
    store.close()
    assert all(row.steps > 0 for row in rows)
    assert encode(site.done[-1].model) == again(coordinator, rows, 1)[0][0]
    assert report["layers"][0]["score"] == {row.device: float(row.steps) for row in rows}


@on_a_site
@pytest.mark.slow
async def test_another_rule_does_not_read_the_state_and_begins_afresh(site: Site) -> None:
    await played(site, 1, FEDOPT)
    second = site.coordinator(2, LPA)  # with a server optimizer of its own
    await second.run()
    third = site.coordinator(3, FEDOPT)
    await third.run()

    store = site.store()
    saved = [second.blobs.get(str(row.optimizer)) for row in store.models.all(TASK)[:3]]
    store.close()
    assert [data.startswith(MAGIC) for data in saved] == [True, False, True]
    assert [done.state for done in site.done] == ["published"] * 3


@on_a_site
async def test_an_asynchronous_buffer_keeps_the_moments_too(site: Site) -> None:
    coordinator = await played(site, 2, FEDOPT, mode="async", buffer=Buffer(size=2))

    store = site.store()
    current = store.models.current(TASK)
    state = coordinator.site.rule_state_after(current)
    store.close()
    assert state is not None
    assert state.step == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"preset": Preset(PLAN, MethodSettings("fednova")), "mode": "async"}, "synchronous"),
        ({"preset": FEDOPT, "detection": Detection()}, 'which "fedopt" cannot'),
        ({"preset": Preset(PLAN, MethodSettings("fedopt"), server=LPA.server)}, "with_method"),
        ({"preset": Preset(PLAN, MethodSettings("fedprox"))}, "with_method"),
        ({"preset": Preset(PLAN, MethodSettings("scaffold"))}, "with_method"),
        ({"preset": Preset(PLAN, MethodSettings("feddc"))}, "with_method"),
        ({"preset": Preset(PLAN, MethodSettings("zeno"))}, "labelled clips"),
        ({"preset": Preset(PLAN, MethodSettings("feddisco"))}, "with_method"),
        ({"preset": Preset(PLAN, MethodSettings("acmu")), "mode": "async"}, "synchronous"),
        (
            {"preset": Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("feddyn")), "mode": "async"},
            "synchronous",
        ),
        (
            {"preset": Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("scaffold")), "mode": "async"},
            "synchronous",
        ),
    ],
)
def test_a_coordinator_refuses_a_rule_that_does_not_fit(tmp_path: Path, changes: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        RunSettings(FLEET, BrokerAddress("h"), tmp_path, **changes)


def test_acmu_asks_devices_to_drop_activations_where_it_is_told_to_and_the_pack_can(
    runtime: StepRuntime, tmp_path: Path
) -> None:
    assert get_rule("acmu", bavd=True).plan_for(PLAN) == msgspec.structs.replace(PLAN, bavd=Bavd())
    assert get_rule("acmu", bavd=True, maps=True).plan_for(PLAN).bavd == Bavd(maps=True)
    assert get_rule("acmu").plan_for(PLAN) is PLAN
    preset = Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("acmu", {"bavd": True}))
    with pytest.raises(PackError, match=r"^The models of the pack digits have no layers that drop activations"):
        Coordinator(RunSettings(FLEET, BrokerAddress("h"), tmp_path / "state", preset=preset), runtime.pack)
    assert not (tmp_path / "state").exists(), "refused before anything is kept"


def test_rounds_that_drop_activations_need_devices_that_can_and_take_the_maps_they_ask_for(tmp_path: Path) -> None:
    graphs = tiny_pack.graphs()
    step = msgspec.structs.replace(graphs[1], state={"model.bavd.drop": (7,), "model.bavd.seen": (1,)})
    named = msgspec.structs.replace(step, inputs=tuple(step_inputs(step)), outputs=tuple(step_outputs(step)))
    pack = tiny_pack.pack(graphs=(graphs[0], named))
    plain, asked = (
        Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("acmu", {"bavd": True, **more}))
        for more in ({}, {"maps": True})
    )

    made = Coordinator(RunSettings(FLEET, BrokerAddress("h"), tmp_path, preset=asked), pack)
    made.store.close()

    assert made.site.needs == ["bavd"]
    assert [(each.name, each.size) for each in asked.declared(pack)] == [("maps", 7)]
    assert plain.declared(pack) == ()


@on_a_site
@pytest.mark.slow
async def test_devices_keep_the_drifts_of_feddyn_whose_sum_the_coordinator_has(site: Site) -> None:
    """With everybody in every round h, which the coordinator keeps, is the mean of the devices' own g."""
    preset = Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("feddyn", {"alpha": 0.1}))
    await played(site, 1, preset)
    second = site.coordinator(3, preset)  # the devices live on, and so does h
    await second.run()

    store = site.store()
    state = second.site.rule_state_after(store.models.current(TASK))
    store.close()
    assert state is not None
    assert state.step == 3
    own = [agent.rounds.local.variates["feddyn.g"] for agent in site.agents.values()]
    np.testing.assert_allclose(np.mean(own, axis=0), state.arrays["h"], atol=1e-6)
    assert np.abs(state.arrays["h"]).max() > 1e-4
    assert [done.counted for done in site.done] == [3, 3, 3]


def test_fedprox_and_feddyn_change_the_plan_of_the_devices() -> None:
    prox, dyn = (
        PRACTICAL.with_method(MethodSettings("fedprox", {"mu": 0.5})).plan,
        PRACTICAL.with_method(MethodSettings("feddyn")).plan,
    )

    assert (prox.mu, prox.method) == (0.5, "")
    assert (dyn.mu, dyn.method, dyn.clip) == (0.01, "feddyn", PRACTICAL.plan.clip)
    assert dyn.options == {"alpha": 0.01, "weighting": "uniform", "clip": 5.0, "limit": "clamp"}
    assert Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("feddyn")).plan.clip == 10


def test_a_rule_that_is_the_servers_step_takes_the_place_of_the_presets_optimizer() -> None:
    practical = get_preset("practical")

    assert practical.with_method(MethodSettings("fedopt")).server_for(5, 10).kind == "none"
    assert practical.with_method(MethodSettings("median")).server == practical.server
    assert "method fedopt" in str(practical.with_method(MethodSettings("fedopt")).rates())
    assert "average" in str(practical.fitted(trained=True).rates())
    with pytest.raises(SettingsError, match="--server-rate"):
        practical.with_method(MethodSettings("fedopt")).fitted(trained=False, server_rate=0.1)
