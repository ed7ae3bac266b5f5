"""Devices whose updates come too late are waited for in some rounds, and operators are told which setting it is."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cloud.coordinator_site import DEVICES, TASK, Site, trainer
from tests.cloud.site_runs import on_a_site
from tests.cloud.site_runs import runtime as runtime

from auricle.wire.messages import Invite
from auricle_cloud.rounds.policy import Answers, Timing, closing_decision
from auricle_cloud.states.attendance import GRACE, MISSED, rounds_back, slow_devices
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings

TIMING = Timing(quorum=0.6, deadline=60.0, patience=2.0, least_wait=5.0)
DELAY = 4.0
"""Seconds that the slow device takes, where the others take part of one and a round waits no longer for them."""


def test_a_round_waits_after_three_missed_ones_and_then_ever_less_often() -> None:
    assert GRACE == (3, 6, 12, 24)
    missed = {"b": 3, "a": 6, "c": 1, "d": 4, "e": 48}
    assert slow_devices({name: range(rounds) for name, rounds in missed.items()}) == {"a": 6, "b": 3}


@pytest.mark.parametrize(
    ("answered", "slow", "now", "step"),
    [
        (4, 1, 59.9, "wait"),  # its patience ended at 5 s
        (4, 1, 60.0, "close"),  # never past the deadline
        (4, 0, 5.0, "close"),  # the slow one has gone, or answered
        (3, 1, 30.0, "wait"),
    ],
)
def test_a_round_waits_for_a_slow_device_until_its_deadline(answered: int, slow: int, now: float, step: str) -> None:
    told = Answers(invited=5, wanted=4, answered=answered, outstanding=5 - answered, online=5 - answered, slow=slow)
    assert closing_decision(told, TIMING, began=0.0, now=now, quorum_at=0.0).step == step


@given(st.integers(1, 200))
def test_a_device_that_never_answers_costs_next_to_nothing(rounds: int) -> None:
    waited = sum(bool(slow_devices({"a": range(missed)})) for missed in range(rounds))
    assert waited <= len(GRACE)


class SlowAgent(Agent):
    """Heeds an invitation late."""

    async def _accept_invitation(self, invite: Invite) -> None:
        self._late = asyncio.get_running_loop().create_task(self._after(invite))

    async def _after(self, invite: Invite) -> None:
        await asyncio.sleep(DELAY)
        await super()._accept_invitation(invite)


@pytest.mark.slow
@on_a_site
async def test_a_slow_device_counts_in_every_fourth_round(site: Site) -> None:
    coordinator = site.coordinator(2 * MISSED + 2, devices=4, quorum=0.7, least_wait=0.2, patience=0.1)
    site.start_agents(coordinator)
    slow = DEVICES[3]
    told = AgentSettings(
        slow, "f", site.broker.address(slow), site.folder / slow, coordinator.identity.public, 60.0, 60.0
    )
    task = asyncio.create_task(SlowAgent(told, trainer(site.runtime, 9), site._workers).run())
    try:
        await coordinator.run()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    store = site.store()
    counted = [done.number for done in site.done if slow in store.updates.counted_devices(TASK, done.number)]
    assert counted == [MISSED + 1, 2 * MISSED + 2]
    events = [event for event in store.journal.events() if event.kind == "too slow"]
    assert [(event.device, event.round) for event in reversed(events)] == [(slow, MISSED + 1), (slow, 2 * MISSED + 2)]
    assert "least_wait" in events[0].detail
    assert [done.report.get("waits_for") for done in site.done if done.number in counted] == [[slow]] * 2
    assert store.attendance.missed(TASK, 2 * MISSED + 3, DEVICES, 2 * MISSED + 2) == {}
    store.close()


@pytest.mark.parametrize("participation", [0.05, 0.08, 0.25, 1.0])
def test_a_device_that_never_answers_costs_little_where_few_are_invited(participation: float) -> None:
    """It is invited to some rounds only, and still waited for once after 3, 6, 12 and 24 of them."""
    draw, known = random.Random(1), 200
    back, missed, waited = rounds_back(known, round(participation * known)), list[int](), 0
    for number in range(3000):
        near = [each for each in missed if each >= number - back]
        if draw.random() < participation:
            waited += bool(slow_devices({"a": near}))
            missed.append(number)
    assert waited == len(GRACE)
