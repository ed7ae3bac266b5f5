"""Rounds that operators, schedules and standing decide about: a real broker and real agents."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.cloud.coordinator_site import DEVICES, FEDAVG, FLEET, TASK, TOPICS, Site
from tests.cloud.site_runs import end, on_a_site, played
from tests.cloud.site_runs import runtime as runtime

from auricle.mqtt_link.link import Delivery
from auricle.wire.frames import seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Status
from auricle.wire.tensors import digest, encode
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_cloud.settings import Detection
from auricle_cloud.storage.database_errors import SupersededError


@on_a_site
async def test_a_new_device_waits_for_approval_and_is_told_so(site: Site) -> None:
    coordinator = site.coordinator(1, FEDAVG, devices=1, approval="manual")
    site.start_agents(coordinator, DEVICES[:2])
    running = asyncio.create_task(coordinator.run())
    store = site.store()
    while {row.standing for row in store.devices.all()} != {"pending"} or len(store.devices.all()) < 2:
        await coordinator.site.wait_change(0.1)
    assert store.rounds.newest(TASK) is None
    store.devices.set_standing(["dev-b"], "approved", who="test")
    await running

    assert site.done[0].report["invited"] == ["dev-b"]
    assert site.done[0].report["passed_over"] == {"dev-a": "waits for an operator's approval"}
    store.close()


@on_a_site
async def test_more_are_invited_than_needed_and_the_round_closes_when_enough_answered(site: Site) -> None:
    coordinator = site.coordinator(
        1, FEDAVG, devices=4, participation=0.75, over_selection=1.4, quorum=0.5, least_wait=50.0
    )
    site.start_agents(coordinator)
    async with site.scripted("dev-d", Identity.create()):
        await coordinator.run()

    (done,) = site.done
    assert (done.state, done.invited, done.counted) == ("published", 4, 3)
    assert done.seconds < 30


@on_a_site
@pytest.mark.slow
async def test_an_operator_aborts_a_round_and_starts_another(site: Site) -> None:
    coordinator = site.coordinator(None, FEDAVG, devices=2, quorum=1.0)
    site.start_agents(coordinator, DEVICES[:1])
    store = site.store_when_there()
    async with site.scripted("dev-d", Identity.create()):
        running = asyncio.create_task(coordinator.run())
        while len(store.devices.all()) < 2:
            await coordinator.site.wait_change(0.1)
        store.rounds.plan(TASK, 1, who="test")
        while (newest := store.rounds.newest(TASK)) is None or newest.state != "collecting":
            await coordinator.site.wait_change(0.1)
        while not store.updates.counted_devices(TASK, 1):
            await coordinator.site.wait_change(0.1)
        store.rounds.request(TASK, 1, "abort", who="test")
        await site.rounds(1)
        store.devices.set_standing(["dev-d"], "quarantined", who="test", reason="silent")
        store.rounds.plan(TASK, 1, who="test")
        await site.rounds(2)
        await end(running)

    assert [(d.number, d.state, d.counted) for d in site.done] == [(1, "aborted", 1), (2, "published", 1)]
    assert store.rounds.report(TASK, 1)["reason"] == "aborted by an operator"
    assert site.done[1].report["passed_over"] == {"dev-d": "is quarantined: silent"}
    store.close()


@pytest.mark.slow
@on_a_site
async def test_a_schedule_starts_rounds_when_enough_devices_are_idle(site: Site) -> None:
    coordinator = site.coordinator(None, FEDAVG, devices=1)
    coordinator.store.schedules.set("nightly", task=TASK, at="always", idle=2, rounds=1, who="test")
    running = asyncio.create_task(coordinator.run())
    site.start_agents(coordinator, DEVICES[:2])
    await site.rounds(2)
    await end(running)

    store = site.store()
    assert [d.invited for d in site.done[:2]] == [2, 2]
    assert store.rounds.get(TASK, 1).asked_by == "schedule nightly"
    store.close()


@on_a_site
@pytest.mark.slow
async def test_the_next_round_begins_with_the_model_that_was_promoted(site: Site) -> None:
    coordinator = site.coordinator(None, FEDAVG, devices=1)
    site.start_agents(coordinator, DEVICES[:1])
    running = asyncio.create_task(coordinator.run())
    store = site.store_when_there()
    store.rounds.plan(TASK, 2, who="test")
    await site.rounds(2)
    store.models.promote(TASK, 1, who="test", kind="rolled back")
    store.rounds.plan(TASK, 1, who="test")
    await site.rounds(3)
    await end(running)

    assert store.rounds.get(TASK, 3).base == digest(encode(site.done[0].model))
    assert [m.version for m in store.models.all(TASK)] == [3, 2, 1, 0]
    assert store.models.current(TASK).parent == 1
    store.close()


@on_a_site
@pytest.mark.slow
async def test_a_coordinator_that_was_overtaken_stops_and_writes_nothing(site: Site) -> None:
    first = site.coordinator(None, FEDAVG, devices=1)
    running = asyncio.create_task(first.run())
    await first.link.wait_connected(10)
    second = site.coordinator(1, FEDAVG, devices=1)

    with pytest.raises(SupersededError):
        await running
    with pytest.raises(SupersededError):
        first.store.rounds.plan(TASK, 1)
    site.start_agents(second, DEVICES[:1])
    await second.run()

    assert [d.state for d in site.done] == ["published"]


@on_a_site
async def test_a_round_in_which_all_devices_fail_does_not_end_the_service(site: Site) -> None:
    key = Identity.create()
    coordinator = site.coordinator(None, FEDAVG, devices=1)
    async with site.scripted("dev-d", key) as link:
        topic = TOPICS.up("dev-d", "st")

        async def fail(_: Delivery) -> None:
            said = Status(fleet=FLEET, device="dev-d", boot="b", task=TASK, round=1, state="failed", reason="full")
            await link.publish(topic, seal(key, topic, said))

        await link.subscribe(TOPICS.down("dev-d", "inv"), fail)
        running = asyncio.create_task(coordinator.run())
        coordinator.store.rounds.plan(TASK, 1, who="test")
        await site.rounds(1)
        coordinator.store.devices.set_standing(["dev-d"], "quarantined", who="test")
        site.start_agents(coordinator, DEVICES[:1])
        coordinator.store.rounds.plan(TASK, 1, who="test")
        await site.rounds(2)
        await end(running)

    assert [(d.number, d.state) for d in site.done] == [(1, "aborted"), (2, "published")]
    assert site.done[0].report["failed"] == {"dev-d": "full"}


@pytest.mark.parametrize("mode", ["sync", "async"])
@on_a_site
async def test_a_device_that_declined_is_left_alone_for_a_while(
    site: Site, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle_cloud.storage.round_records.PAUSE_SECONDS", 1e6)

    key = Identity.create()
    coordinator = site.coordinator(None, FEDAVG, devices=1)
    invited: list[Delivery] = []
    async with site.scripted("dev-d", key) as link:
        topic = TOPICS.up("dev-d", "st")

        async def decline(delivery: Delivery) -> None:
            invited.append(delivery)
            said = {"task": TASK, "round": len(invited), "state": "declined", "reason": "no clips"}
            status = Status(fleet=FLEET, device="dev-d", boot="b", **said)
            await link.publish(topic, seal(key, topic, status))

        await link.subscribe(TOPICS.down("dev-d", "inv"), decline)
        running = asyncio.create_task(coordinator.run())
        coordinator.store.rounds.plan(TASK, 2, mode=mode, who="test")
        while not coordinator.store.rounds.resting(TASK):
            await coordinator.site.wait_change(0.1)
        site.start_agents(coordinator, DEVICES[:1])
        await site.rounds(2)
        await end(running)

    assert site.done[1].state == "published"
    assert set(coordinator.store.rounds.invited(TASK, 2)) == {"dev-a"}
    if mode == "sync":  # an asynchronous one may ask a device that registers meanwhile twice
        assert len(invited) == 1
        assert site.done[0].report["reason"] == "no quorum and nobody is left whose update could come"
        (said,) = site.done[1].report["passed_over"].values()
        assert "30 seconds" in said and said.endswith("no clips")


@on_a_site
async def test_an_alarm_on_a_model_whose_updates_are_gone_goes_back_to_the_one_before(site: Site) -> None:
    labels = len(site.pack.labels)
    shape = (4, site.pack.manifest.task.frames, site.pack.manifest.task.frontend.mels)
    validation = ValidationSet(np.zeros(shape, np.float32), np.arange(4) % labels)
    given = {"devices": 1, "detection": Detection(), "evaluator": OnnxEvaluator(site.pack, validation)}
    coordinator = await played(site, 3, FEDAVG, **given, agents=DEVICES[:1])
    store = site.store()
    assert coordinator.blobs.get(store.models.get(TASK, 0).blob)
    second = site.coordinator(3, FEDAVG, **given)
    for row in store.updates.counted(TASK, 1):
        second.blobs.remove(row.body)
    judgement = second.rounds._synchronous._judgement
    assert judgement is not None

    found = await judgement.find(4, 1)

    assert found.parent == 0 and "not kept any more" in found.sentence
    second.store.close()
    store.close()
