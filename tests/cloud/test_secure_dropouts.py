"""Devices that drop out of a secure sum, one in each state: the others make the model, or the round says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cloud.coordinator_site import DEVICES, FEDAVG, TASK, Site, run
from tests.cloud.site_runs import on_a_site
from tests.cloud.site_runs import runtime as runtime
from tests.cloud.test_secure_rounds import watch_masking

from auricle.wire.messages import Ack
from auricle.wire.secure_sum.messages import JoinSum, RevealSum, SumNeighbours, SumQuestion
from auricle.wire.secure_sum.sizes import LEVELS
from auricle_cloud.operations.explanation import explain
from auricle_cloud.settings import SecureSum
from auricle_cloud.states.report import read_report
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.update_delivery import Pending
from auricle_learning.runtimes import StepRuntime

LAST = DEVICES[3]
SILENT: dict[int, type[SumQuestion]] = {1: JoinSum, 2: SumNeighbours, 4: RevealSum}
"""The question that the last device does not answer, by round; in round 3 it trains and sends nothing."""
ENDED = 5
"""The round in which two devices say that they cannot share."""


def _misbehave(name: str, agent: Agent) -> None:
    answer, take_part = agent._sums.answer, agent.rounds.take_part

    async def answering(asked: SumQuestion) -> None:
        if name == LAST and isinstance(asked, SILENT.get(asked.round, ())):
            return
        if asked.round == ENDED and name > DEVICES[1] and isinstance(asked, SumNeighbours):
            agent._sums._part._kept.forget()  # its disk lost what it has to know
        await answer(asked)

    async def taking_part(invite: Any) -> None:
        if not (name == LAST and invite.round == 3):
            await take_part(invite)

    agent._sums.answer = answering  # type: ignore[method-assign]
    agent.rounds.take_part = taking_part  # type: ignore[method-assign]


@pytest.mark.slow
@pytest.mark.nightly
def test_a_device_drops_out_in_every_state_and_the_round_says_when(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        told = SecureSum(on=True, wait=3.0)
        coordinator = site.coordinator(5, FEDAVG, devices=4, quorum=0.7, least_wait=3.0, secure_sum=told)
        site.start_agents(coordinator, DEVICES)
        trained = watch_masking(site)
        for name, agent in site.agents.items():
            _misbehave(name, agent)
        await coordinator.run()

        store = site.store()
        rows = [store.rounds.get(TASK, number) for number in range(1, 6)]
        sums = [(row.report or {})["secure_sum"] for row in rows]
        assert [row.state for row in rows] == ["published"] * 4 + ["aborted"]
        assert [each.get("devices") for each in sums] == [3, 3, 3, 4, None]
        when = ("keys", "shares", "update", "reveal")
        assert [each["dropped"] for each in sums] == [*({LAST: state} for state in when), {}]
        assert sums[0]["neighbours"] == 2 and all(each["neighbours"] == 3 for each in sums[1:])
        for number, row in enumerate(rows[:4], 1):
            here = DEVICES if number == 4 else DEVICES[:3]
            plain = np.mean([trained[number, name].astype(np.float64) for name in here], axis=0)
            after = coordinator.weights(store.models.get(TASK, number).blob)
            assert np.abs(after - plain).max() <= told.bound / LEVELS / 2 + 1e-6
            assert set((row.report or {})["invited"]) == set(DEVICES)
        assert "2 of 4 devices" in (rows[4].report or {})["reason"]
        failed = (rows[4].report or {})["failed"]
        assert set(failed) == set(DEVICES[2:]) and all("lost them" in why for why in failed.values())
        assert store.models.current(TASK).version == 4

        said = [explain(read_report(r.report or {}), task=TASK, number=r.round, state=r.state) for r in rows]
        assert any("without keys: dev-d" in text for text in said[0].sentences)
        assert any("without an update: dev-d" in text for text in said[2].sentences)
        assert any("secure sum of 4 updates" in text for text in said[3].sentences)
        last = {each.device: each.sentences for each in said[3].devices}[LAST]
        assert "nothing is known" in last[0] and "gone" in last[1]
        why = {each.device: each for each in said[0].devices}[LAST]
        assert (why.outcome, "no keys" in why.sentences[0]) == ("failed", True)
        assert any("has not been read" in text for text in said[4].sentences)
        store.close()

    run(case, runtime, tmp_path, 200.0)


@on_a_site
async def test_an_update_that_comes_again_is_not_taken_for_the_shares_that_the_round_waits_for(site: Site) -> None:
    """As from a device that was killed before its update was acknowledged: a sum of three needs the shares of all."""
    coordinator = site.coordinator(1, FEDAVG, devices=3, quorum=1.0, secure_sum=SecureSum(on=True))
    site.start_agents(coordinator)
    last = site.agents[DEVICES[2]]
    answer, keep, acknowledged = last._sums.answer, last._delivery.keep, last._delivery.acknowledged
    kept: list[Pending] = []
    asked_to_reveal = 0

    async def keeping(pending: Pending, first: Callable[[], None]) -> None:
        kept.append(pending)
        await keep(pending, first)

    async def answering(asked: SumQuestion) -> None:
        nonlocal asked_to_reveal
        asked_to_reveal += isinstance(asked, RevealSum)
        if isinstance(asked, RevealSum) and asked_to_reveal == 1:
            for update, piece in kept[0].parts():
                await last._say("upd", update, piece)
        else:
            await answer(asked)

    async def acknowledging(ack: Ack) -> bool:
        if ack.verdict == "duplicate" and asked_to_reveal:
            await last._say("get", last._messages.get(1))
        return await acknowledged(ack)

    last._sums.answer, last._delivery.keep = answering, keeping  # type: ignore[method-assign]
    last._delivery.acknowledged = acknowledging  # type: ignore[method-assign]
    await coordinator.run()

    store = site.store()
    row = store.rounds.get(TASK, 1)
    assert row.state == "published", row.report
    assert asked_to_reveal >= 2 and (row.report or {})["secure_sum"]["devices"] == 3
    store.close()
