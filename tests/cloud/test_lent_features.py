"""What a round of PKCF lends: kept with its record over restarts, fetched by real devices, taken back in the end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cloud.coordinator_site import PLAN, TASK, Site, run

from auricle.packs.pack import load_pack
from auricle.wire.plan import Lent
from auricle.wire.prior_knowledge import PriorKnowledge
from auricle.wire.tensors import digest
from auricle_cloud.aggregation.presets import Preset
from auricle_cloud.operations.group_explanation import about_prior
from auricle_cloud.states.report import read_report
from auricle_edge.runtimes import StepRuntime
from auricle_edge.training.train import Trainer


@pytest.fixture(scope="module")
def runtime() -> StepRuntime:
    return StepRuntime(load_pack("digits"))


def test_a_restarted_coordinator_lends_the_same_and_devices_that_give_nothing_still_count(
    runtime: StepRuntime, tmp_path: Path
) -> None:
    """One of three gives its gradients. The round after it and a restart lends what they made, and nothing stays."""

    async def case(site: Site) -> None:
        preset = Preset(PLAN, "fedavg").with_rule("acmu", {"pkcf": True, "pkcf_features": 5, "pkcf_epochs": 2})
        first = site.coordinator(1, preset)
        site.start_agents(first)
        own = site.agents["dev-a"].trainer
        own.settings = msgspec.structs.replace(own.settings, gradients=True)
        fetched = note_lent(site)
        await first.run()
        second = site.coordinator(2, preset)
        await second.run()

        store, classes = site.store(), sorted({*own.data.train.targets.tolist()})
        assert [done.counted for done in site.done] == [3, 3]
        reports = [read_report(store.rounds.get(TASK, number).report or {}) for number in (1, 2)]
        assert [report.prior_knowledge is not None for report in reports] == [True, True]
        assert [(told.classes, told.clients) for r in reports if (told := r.prior_knowledge)] == [(classes, 1)] * 2
        known = [set(PriorKnowledge.from_bytes(data, *shape(site)).labels) for data in fetched]
        assert known == [set()] * 3 + [{*classes}] * 3, "what devices got in both rounds"
        lent = store.rounds.get(TASK, 2).lent
        assert lent == Lent(blob=digest(fetched[-1]), length=len(fetched[-1]), chunks=1)
        assert lent.blob not in [*second.blobs.names()]
        (said,) = about_prior(reports[1].prior_knowledge)
        assert "1 device;" in said
        store.close()

    run(case, runtime, tmp_path)


@pytest.mark.parametrize("aborted", [False, True])
def test_a_round_that_is_taken_up_with_another_rule_goes_on_with_what_it_lent_and_takes_it_back(
    runtime: StepRuntime, tmp_path: Path, aborted: bool
) -> None:
    async def case(site: Site) -> None:
        first = site.coordinator(1, Preset(PLAN, "fedavg").with_rule("acmu", {"pkcf": True, "pkcf_features": 5}))
        site.start_agents(first)
        goes_on, fetched = threading.Event(), note_lent(site)
        for agent in site.agents.values():
            own = agent.trainer
            own.settings = msgspec.structs.replace(own.settings, gradients=True)
            hold(agent.trainer, goes_on)
        running = asyncio.create_task(first.run())
        store = site.store()
        try:
            while len(fetched) < 2:  # those whose training has threads
                await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if aborted:
                store.rounds.request(TASK, 1, "abort", who="ana")
            second, cleared = site.coordinator(1), set()
            publish = second.site.messenger._publish

            async def noted(topic: str, payload: bytes, **more: Any) -> None:
                cleared.update([topic] if not payload else [])
                await publish(topic, payload, **more)

            second.site.messenger._publish = noted  # type: ignore[method-assign]
            lent = store.rounds.get(TASK, 1).lent
            assert lent is not None and lent.blob in [*second.blobs.names()], "kept over the restart"
            if not aborted:
                goes_on.set()
            await second.run()
        finally:
            goes_on.set()

        row = store.rounds.get(TASK, 1)
        assert row.state == ("aborted" if aborted else "published")
        assert len(store.updates.counted(TASK, 1)) == (0 if aborted else 3)
        assert not sum(second.inbox.refused.values()), second.inbox.refused
        assert second.site.messenger.topics.blob(lent.blob, 0) in cleared
        assert lent.blob not in [*second.blobs.names()]
        store.close()

    run(case, runtime, tmp_path)


def hold(trainer: Trainer, goes_on: threading.Event) -> None:
    """Have training end only once the event is set."""
    runs = trainer.run

    def held(*given: Any, **more: Any) -> Any:
        result = runs(*given, **more)
        goes_on.wait(20)
        return result

    trainer.run = held  # type: ignore[method-assign]


def shape(site: Site) -> tuple[int, int]:
    classes, width = site.pack.plugin_table.specs[-2].shape
    return classes, width


def note_lent(site: Site) -> list[bytes]:
    """What agents train with, as it was lent, from now on."""
    found: list[bytes] = []
    for agent in site.agents.values():
        runs = agent.trainer.run

        def noted(*given: Any, prior: PriorKnowledge, runs: Any = runs) -> Any:
            found.append(prior.to_bytes())
            return runs(*given, prior=prior)

        agent.trainer.run = noted  # type: ignore[method-assign]
    return found
