"""A round that every device's own judge refused: aborted, and the run goes on."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.cloud.coordinator_site import DEVICES, FLEET, TASK, Site, trainer
from tests.cloud.site_runs import end, on_a_site
from tests.cloud.site_runs import runtime as runtime

from auricle.speech.features import LogMel
from auricle.wire.plan import Plan
from auricle_cloud.operations.explanation import explain
from auricle_cloud.rounds.synchronous import RoundFailedError
from auricle_cloud.states.report import read_report
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.training.judge.best import Best, BestStore
from auricle_edge.training.judge.comparison import Heard
from auricle_edge.training.judge.round_judge import PERSONAL, PLUGIN
from auricle_edge.training.judge.sound import Judging, Negatives
from auricle_edge.training.judge.streams import Streams
from auricle_edge.training.local_store import LocalStore
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import DeviceData
from auricle_learning.training.train import LocalState, Trainer

DETECT = DetectSettings(threshold=0.6, vad="off")
CAREFUL = Preset(Plan(rate=1e-4, local_rate=1e-4), MethodSettings("fedavg"))
NOTHING = Heard(np.zeros(0, np.uint8), np.zeros(0, np.uint8), 0.0)


def _devices(site: Site, public: bytes, bias: float = 20.0) -> list[Agent]:
    """Three devices whose own model says one word to everything, and whose best one says nothing."""
    pack, table = site.pack, site.pack.plugin_table
    quiet = np.zeros(table.size, np.float32)
    loud = quiet.copy()
    loud[-len(pack.labels)] = bias
    sound = [np.random.default_rng(3).gamma(1.0, size=(200, 40)).astype(np.float32) for _ in range(8)]
    carried = Negatives(Streams(LogMel(pack.manifest.task), pack.labels, DETECT, sound))
    agents = []
    for i, name in enumerate(DEVICES[:3]):
        folder = site.folder / name
        best = {role: Best(quiet, "a" * 64, NOTHING) for role in (PLUGIN, PERSONAL)}
        BestStore(folder, pack.identity, {PLUGIN: table, PERSONAL: table}).save(best)
        LocalStore(folder, pack.identity, table).save(LocalState(loud))
        learn = LearnSettings(clips=1)
        made = trainer(site.runtime, i + 1)
        data = DeviceData(made.data.train, made.data.train.chosen(np.zeros(0, np.int64)), None)
        own = Trainer(site.runtime, "crnn-lite", data, i + 1, settings=learn)
        told = AgentSettings(name, FLEET, site.broker.address(name), folder, public, 5.0, 1.0)
        agents.append(Agent(told, own, site._workers, judging=Judging(DETECT, carried)))
    return agents


@on_a_site
@pytest.mark.slow
async def test_a_round_that_all_refuse_is_aborted_and_the_next_one_is_made_by_their_best_states(site: Site) -> None:
    coordinator = site.coordinator(2, CAREFUL)
    tasks = [asyncio.create_task(agent.run()) for agent in _devices(site, coordinator.identity.public)]
    try:
        await coordinator.run()
    finally:
        await end(*tasks)

    assert [(d.state, d.invited, d.counted) for d in site.done] == [("aborted", 3, 0), ("published", 3, 3)]
    failed = site.done[0].report["failed"]
    assert sorted(failed) == list(DEVICES[:3])
    assert all(reason.startswith("worse_false_accepts: ") and " in " in reason for reason in failed.values())


@on_a_site
async def test_after_a_model_that_most_devices_find_worse_the_next_round_begins_with_the_one_before(site: Site) -> None:
    """A server's step that is a million times too long makes of a model that says nothing one that accepts all sound.

    The devices judge their own training, which does nothing wrong; that the published model does, they can only say.
    """
    plan = Plan(mode="supervised", rate=1e-4)
    hasty = Preset(plan, MethodSettings("fedavg"), server=OptimizerSettings(kind="momentum", lr=1e6, beta1=0.0))

    quiet = np.zeros(site.pack.plugin_table.size, np.float32)
    coordinator = site.coordinator(3, hasty, start=quiet)
    agents = _devices(site, coordinator.identity.public, 0.0)
    for agent in agents:
        agent.trainer.data.train.targets[:] = 0
    tasks = [asyncio.create_task(agent.run()) for agent in agents]
    try:
        await coordinator.run()
    finally:
        await end(*tasks)

    assert [done.state for done in site.done] == ["published", "aborted", "published"]
    report = site.done[1].report
    assert report["went_back"] == 0
    assert len(report["doubts"]) >= 2
    assert set(report["doubts"].values()) == {"false_accepts: 8 in 16 s, 0 in 16 s in the best plug-in"}
    assert f"{len(report['doubts'])} of 3 devices find version 1 of the model worse" in report["reason"]
    assert np.array_equal(site.done[1].model, quiet)
    store = site.store()
    assert [store.models.get(TASK, version).parent for version in (1, 2)] == [0, 0]
    assert store.rounds.get(TASK, 3).base_version == 0
    why = explain(read_report(report), task=TASK, number=2, state="aborted")
    assert any("the next round begins with version 0" in said for said in why.sentences)
    store.close()


@pytest.mark.slow
@on_a_site
async def test_a_round_in_which_all_devices_fail_still_ends_the_run(site: Site) -> None:
    coordinator = site.coordinator(2, CAREFUL)
    agents = _devices(site, coordinator.identity.public)
    for agent in agents:
        agent.trainer.settings = LearnSettings(clips=1000)
    tasks = [asyncio.create_task(agent.run()) for agent in agents]
    try:
        with pytest.raises(RoundFailedError, match="needs 1000"):
            await coordinator.run()
    finally:
        await end(*tasks)
