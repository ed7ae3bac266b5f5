"""An update that came too late, or was refused, is not called silence when an operator asks why."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.cloud.arrivals import update
from tests.cloud.coordinator_site import DEVICES, FEDAVG, FLEET, TASK, TOPICS, Site
from tests.cloud.site_runs import end, on_a_site
from tests.cloud.site_runs import runtime as runtime

from auricle.mqtt_link.link import Delivery, MqttLink
from auricle.wire.frames import seal
from auricle.wire.identity import Identity
from auricle.wire.tensors import digest, encode
from auricle_cloud.operations.operations import Operations


async def send(link: MqttLink, device: str, key: Identity, base: str, weights: np.ndarray, number: int = 1) -> None:
    """Send an update and wait for the answer."""
    answered = asyncio.Event()

    async def hear(_: Delivery) -> None:
        answered.set()

    await link.subscribe(TOPICS.down(device, "ack"), hear)
    body, topic = encode(weights), TOPICS.up(device, "upd")
    said = {"fleet": FLEET, "task": TASK, "round": number, "base": base, "body": digest(body), "length": len(body)}
    await link.publish(topic, seal(key, topic, update(device, **said), body))
    await asyncio.wait_for(answered.wait(), 30)


@on_a_site
@pytest.mark.slow
async def test_late_and_refused_updates_are_known_to_the_round(site: Site) -> None:
    keys = {name: Identity.create() for name in ("dev-c", "dev-d")}
    coordinator = site.coordinator(None, FEDAVG, devices=4, quorum=0.5, least_wait=0.2)
    site.start_agents(coordinator, DEVICES[:2])
    async with site.scripted("dev-c", keys["dev-c"]) as first, site.scripted("dev-d", keys["dev-d"]) as second:
        running = asyncio.create_task(coordinator.run())
        while len(coordinator.store.devices.not_gone()) < 4:
            await coordinator.site.wait_change(0.1)
        coordinator.store.rounds.plan(TASK, 1, who="test")
        await site.rounds(1)
        start = coordinator.store.models.get(TASK, 0).blob
        weights = coordinator.weights(start)
        await send(first, "dev-c", keys["dev-c"], start, weights + np.float32(1e4))
        await send(second, "dev-d", keys["dev-d"], start, weights)
        await send(second, "dev-d", keys["dev-d"], start, weights + np.float32(1e4), number=77)
        do = Operations(coordinator.store, coordinator.blobs, TASK)
        shown = {
            outcome: [m.device for m in do.show_round(1, outcome=outcome).cohort] for outcome in ("late", "refused")
        }
        why = {found.device: found.sentences[0] for found in do.why_round(1).devices}
        await end(running)

    assert shown == {"late": ["dev-d"], "refused": ["dev-c"]}
    assert "refused" in why["dev-c"] and "closed" in why["dev-d"]
    assert site.done[0].report["failed"] == {} and do.show_round(1).row.failed == 0


@on_a_site
async def test_nobody_waits_for_a_device_whose_update_was_refused(site: Site) -> None:
    """Patience and deadline are far beyond what the test waits for: only the refusal can end the round."""
    key = Identity.create()
    coordinator = site.coordinator(None, FEDAVG, devices=3, quorum=0.5, least_wait=900.0, deadline=900.0)
    site.start_agents(coordinator, DEVICES[:2])
    async with site.scripted("dev-c", key) as link:
        running = asyncio.create_task(coordinator.run())
        while len(coordinator.store.devices.not_gone()) < 3:
            await coordinator.site.wait_change(0.1)
        (number,) = coordinator.store.rounds.plan(TASK, 1, who="test")
        while coordinator.store.rounds.get(TASK, number).state != "collecting":
            await coordinator.site.wait_change(0.1)
        start = coordinator.store.models.get(TASK, 0).blob
        await send(link, "dev-c", key, start, coordinator.weights(start) + np.float32(1e4))
        await site.rounds(1)
        (why,) = Operations(coordinator.store, coordinator.blobs, TASK).why_round(1, "dev-c").devices
        await end(running)

    assert [(done.state, done.counted) for done in site.done] == [("published", 2)]
    assert why.outcome == "refused"
    assert "norm" in why.sentences[0]
