"""Asynchronous rounds with a buffer: a real broker, real agents, nobody is waited for."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.cloud.coordinator_site import DEVICES, FEDAVG, TASK, TOPICS, Site, keep_updates, on_site

from auricle.mqtt_link.link import Delivery
from auricle.wire.frames import open_frame
from auricle.wire.identity import Identity
from auricle.wire.messages import Abort, Invite
from auricle.wire.tensors import decode, encode
from auricle_cloud.settings import Buffer


@pytest.mark.slow
@on_site
async def test_a_model_is_made_of_every_two_updates_and_none_counts_twice(site: Site) -> None:
    coordinator = site.coordinator(5, FEDAVG, mode="async", buffer=Buffer(size=2, stale_limit=3))
    keep_updates(coordinator)
    site.start_agents(coordinator)

    await coordinator.run()

    store = site.store()
    rows = {number: store.updates.counted(TASK, number) for number in range(1, 6)}
    models = {model.version: model for model in store.models.all(TASK)}
    current = store.models.current(TASK)
    base = {number: store.rounds.get(TASK, number).base for number in range(1, 6)}
    assert [d.state for d in site.done] == ["published"] * 5
    assert all(len(counted) >= 2 for counted in rows.values())
    keys = [(row.round, row.device) for counted in rows.values() for row in counted]
    assert len(keys) == len(set(keys))
    assert current.version == 5
    stale = [row for counted in rows.values() for row in counted if row.staleness]
    assert all(row.staleness == row.counted_in - row.round <= 3 for row in stale)
    for number, counted in rows.items():
        # FedBuff by hand: w + sum of n_k / n * (w_k - base_k) / sqrt(1 + staleness).
        start = coordinator.weights(base[number]).astype(np.float64)
        moved = np.zeros_like(start)
        total = sum(row.samples for row in counted)
        for row in counted:
            sent = decode(coordinator.blobs.get(row.body), start.size, row.codec).astype(np.float64)
            delta = (sent - coordinator.weights(base[row.round])) / np.sqrt(1 + row.staleness)
            moved += row.samples / total * delta
        assert np.allclose(coordinator.weights(models[number].blob), start + moved, atol=1e-6)


@on_site
@pytest.mark.slow
async def test_a_device_that_never_answers_stalls_nothing(site: Site) -> None:
    coordinator = site.coordinator(3, FEDAVG, mode="async", devices=4, buffer=Buffer(size=3), deadline=60.0)
    site.start_agents(coordinator)
    async with site.scripted("dev-d", Identity.create()):
        await coordinator.run()
    assert [(d.state, d.counted) for d in site.done] == [("published", 3)] * 3
    assert sum(d.seconds for d in site.done) < 30


@on_site
@pytest.mark.slow
async def test_a_buffer_larger_than_the_fleet_is_emptied_when_nobody_is_left(site: Site) -> None:
    await site.ran(2, FEDAVG, mode="async", devices=3, buffer=Buffer(size=50))
    assert [(d.state, d.counted) for d in site.done] == [("published", 3)] * 2


@on_site
@pytest.mark.slow
async def test_devices_at_work_hear_that_a_round_was_aborted(site: Site) -> None:
    coordinator = site.coordinator(None, FEDAVG, mode="async", devices=1, buffer=Buffer(size=50))
    told: list[Abort] = []
    invited, stopped = asyncio.Event(), asyncio.Event()

    async def hear(arrived: Delivery) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: coordinator.identity.public)
        if isinstance(message, Invite):
            invited.set()
        elif isinstance(message, Abort):
            told.append(message)
            stopped.set()

    store = site.store_when_there()
    store.rounds.plan(TASK, 1, mode="async", who="test")
    running = asyncio.create_task(coordinator.run())
    async with site.scripted("dev-d", Identity.create()) as link:
        await link.subscribe(TOPICS.down("dev-d", "+"), hear)
        await asyncio.wait_for(invited.wait(), 30)
        store.rounds.request(TASK, 1, "abort", who="test")
        await asyncio.wait_for(stopped.wait(), 30)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert [(a.device, a.task, a.round, a.reason) for a in told] == [("dev-d", TASK, 1, "aborted by an operator")]
    assert store.rounds.get(TASK, 1).state == "aborted"


@pytest.mark.slow
@on_site
async def test_devices_join_while_a_run_goes_on(site: Site) -> None:
    coordinator = site.coordinator(200, FEDAVG, mode="async", devices=1, buffer=Buffer(size=2))
    site.start_agents(coordinator, DEVICES[:1])
    running = asyncio.create_task(coordinator.run())
    await site.rounds(2)
    site.start_agents(coordinator, DEVICES[1:3])
    took_part: set[str] = set()
    while took_part != set(DEVICES[:3]):
        await site.rounds(len(site.done) + 1)
        took_part |= {row["device"] for row in site.done[-1].report["updates"]}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert len(site.done) < 200
    assert encode(site.done[-1].model) != encode(site.done[0].model)
