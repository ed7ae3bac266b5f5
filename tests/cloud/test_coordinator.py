"""The coordinator with a real broker and real agents: rounds, quorum, restarts, and the same bytes again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.cloud.arrivals import register
from tests.cloud.coordinator_site import (
    DEVICES,
    FEDAVG,
    FLEET,
    LPA,
    PLAN,
    TASK,
    TOPICS,
    Site,
    keep_updates,
    on_site,
    recomputed,
)

from auricle.errors import AuricleError, SettingsError
from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle.packs.pack import load_pack
from auricle.wire.frames import open_frame, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import CoordinatorState, Model, Status
from auricle.wire.tensors import digest, encode
from auricle_cloud.link import batch
from auricle_cloud.rounds.coordinator import NAME, Coordinator
from auricle_cloud.settings import RunSettings
from auricle_cloud.storage import schema
from auricle_cloud.storage.blobs import Blobs
from auricle_learning.aggregation.server_optimizer import OptimizerState
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset


@on_site
async def test_what_a_device_has_the_broker_retain_is_removed_unread(site: Site) -> None:
    address = site.broker.address(DEVICES[0])
    topic, state = TOPICS.up(DEVICES[0], "upd"), TOPICS.device_state(DEVICES[0])
    async with MqttLink(LinkSettings(address, DEVICES[0])) as device:
        await device.publish(topic, b"for ever", retain=True)
        await device.publish(state, b"birth", retain=True)
    coordinator = site.coordinator(None)
    running, emptied = asyncio.create_task(coordinator.run()), asyncio.Event()
    wait = asyncio.create_task(emptied.wait())
    take = coordinator.inbox.handle

    async def note(arrived: Delivery) -> None:
        await take(arrived)
        assert arrived.topic == state or not arrived.payload, "read what was retained"
        if arrived.topic == topic:
            emptied.set()

    coordinator.inbox.handle = note  # type: ignore[method-assign]
    await asyncio.wait({wait, running}, return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    kept: list[str] = []

    async def look(arrived: Delivery) -> None:
        kept.append(arrived.topic)

    async with MqttLink(LinkSettings(site.broker.address(NAME), NAME)) as head:
        await head.subscribe(f"{TOPICS.prefix}/d/+/up/+", look)
        await head.subscribe(f"{TOPICS.prefix}/d/+/state", look)
        while state not in kept:
            await asyncio.sleep(0.01)
    assert topic not in kept
    assert coordinator.inbox.refused.get("frame", 0) <= 1  # the birth, which is not a frame


@pytest.mark.slow
@on_site
async def test_rounds_count_everybody_and_the_same_updates_give_the_same_bytes(site: Site) -> None:
    manifests: list[Model] = []
    coordinator = site.coordinator(2, LPA)
    keep_updates(coordinator)
    site.start_agents(coordinator)

    async def note(arrived: Delivery) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: coordinator.identity.public)
        manifests.append(message)

    async with MqttLink(LinkSettings(site.broker.address("observer"), "observer"), handlers={TOPICS.model: note}):
        await coordinator.run()

    store = site.store()
    rows = [row for number in (1, 2) for row in store.updates.counted(TASK, number)]
    models = recomputed(coordinator, rows[::-1], 2)
    reports = [store.rounds.report(TASK, number) for number in (1, 2)]
    last, current = store.rounds.newest(TASK), store.models.current(TASK)

    came = [(d.number, d.state, d.invited, d.counted + d.left_out) for d in site.done]
    assert came == [(n, "published", 3, 3) for n in (1, 2)]
    assert [encode(d.model) for d in site.done] == models[1:] and len(set(models)) == 3
    assert (last.state, current.blob, current.version) == ("published", digest(models[2]), 2)
    assert manifests[-1].blob == digest(models[2])
    assert sorted({m.version for m in manifests}) == [0, 1, 2]
    for report in reports:
        assert report["invited"] == list(DEVICES[:3])
        assert [row["device"] for row in report["updates"]] == list(DEVICES[:3])
        assert {layer["layer"] for layer in report["layers"]} == {s.layer for s in site.pack.plugin_table.specs}
        out = [row["device"] for row in report["updates"] if row["left_out"]]
        assert out == sorted(set.intersection(*({*layer["pruned_high"]} for layer in report["layers"])))
        for layer in report["layers"]:
            # One of three is a third: floor(0.34 * 3) is left out at the far end, nobody at the near one.
            (far,) = layer["pruned_high"]
            assert layer["pruned_low"] == []
            assert sorted([*layer["kept"], far]) == list(DEVICES[:3])
            assert (layer["share"][far], sum(layer["share"].values())) == (0, pytest.approx(1))
            assert layer["deviation"][far] == max(layer["deviation"].values())


@on_site
@pytest.mark.slow
async def test_counted_bodies_are_removed_and_models_stay(site: Site) -> None:
    await site.ran(2, LPA)

    files = {*Blobs(site.state / "blobs").names()}
    store = site.store()
    bodies = {row.body for number in (1, 2) for row in store.updates.counted(TASK, number)}
    last = {row.body for row in store.updates.counted(TASK, 2)}
    assert len(bodies) == 6
    assert not files & (bodies - last), "detection asks for the newest round's bodies alone"
    files -= last
    assert {digest(encode(d.model)) for d in site.done} < files
    assert files == store.models.in_use(TASK) - last
    assert len(files) == 3 + 2


@on_site
async def test_one_device_whose_update_is_the_next_model(site: Site) -> None:
    await site.ran(3, FEDAVG, devices=1, names=DEVICES[:1])
    assert [(d.state, d.counted) for d in site.done] == [("published", 1)] * 3


@on_site
@pytest.mark.slow
async def test_the_last_update_of_a_round_is_counted_at_once_with_those_that_waited(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "PAUSE_SECONDS", 1e6)
    await site.ran(2, FEDAVG)
    assert [(d.state, d.counted) for d in site.done] == [("published", 3)] * 2


@on_site
async def test_a_device_that_never_answers_costs_patience_and_no_round(site: Site) -> None:
    coordinator = site.coordinator(1, FEDAVG, devices=4, quorum=0.7, least_wait=0.2)
    site.start_agents(coordinator)
    async with site.scripted("dev-d", Identity.create()):
        await coordinator.run()
    (done,) = site.done
    assert (done.state, done.invited, done.counted) == ("published", 4, 3)
    assert done.report["invited"] == list(DEVICES)
    assert done.seconds < 30


async def fails_in_round_one(device: str, key: Identity, link: MqttLink) -> None:
    """Answer every invitation by saying that round 1 failed."""
    topic = TOPICS.up(device, "st")

    async def fail(_: Delivery) -> None:
        status = Status(fleet=FLEET, device=device, boot="b", task=TASK, round=1, state="failed", reason="x")
        await link.publish(topic, seal(key, topic, status))

    await link.subscribe(TOPICS.down(device, "inv"), fail)


@on_site
@pytest.mark.slow
async def test_a_device_that_says_it_failed_is_not_waited_for(site: Site) -> None:
    key = Identity.create()
    coordinator = site.coordinator(1, FEDAVG, devices=4, quorum=0.7, least_wait=50.0)
    site.start_agents(coordinator)
    async with site.scripted("dev-d", key) as link:
        await fails_in_round_one("dev-d", key, link)
        await coordinator.run()

    (done,) = site.done
    assert (done.state, done.counted, done.report["failed"]) == ("published", 3, {"dev-d": "x"})
    assert done.seconds < 30


@on_site
@pytest.mark.slow
async def test_without_a_quorum_the_round_is_aborted_and_the_model_stays(site: Site) -> None:
    coordinator = site.coordinator(2, FEDAVG, devices=2, quorum=0.7, deadline=0.5)
    site.start_agents(coordinator, DEVICES[:1])
    async with site.scripted("dev-d", Identity.create()):
        await coordinator.run()

    store = site.store()
    current = store.models.current(TASK)
    first = encode(site.pack.plugin_table.initial(0))
    assert [(d.number, d.state, d.invited) for d in site.done] == [(1, "aborted", 2), (2, "aborted", 2)]
    assert all(d.counted <= 1 and encode(d.model) == first for d in site.done)
    assert (current.version, current.blob) == (0, digest(first))
    assert "quorum" in store.rounds.report(TASK, 1)["reason"]
    assert {p.name for p in (site.state / "blobs").rglob("*") if p.is_file()} == {digest(first)}


@on_site
async def test_nobody_there_is_said(site: Site) -> None:
    with pytest.raises(AuricleError, match="registered"):
        await site.coordinator(1, gather=0.1).run()


@on_site
async def test_a_restarted_coordinator_goes_on_with_the_open_round(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auricle_cloud.rounds.upkeep.HEARD_WITHIN", 2.0)
    half = {"participation": 0.5, "seed": 6}
    first = site.coordinator(2, LPA, devices=4, quorum=1.0, **half)
    site.start_agents(first, DEVICES[:2])
    async with site.scripted("dev-c", Identity(b"c" * 32)), site.scripted("dev-d", Identity(b"d" * 32)):
        running = asyncio.create_task(first.run())
        while not first.store.updates.counted(TASK, 1):
            await first.site.wait_change(0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    store = site.store()
    opened, before = store.rounds.newest(TASK), store.updates.counted(TASK, 1)
    invited = list(store.rounds.invited(TASK, 1))

    second = site.coordinator(2, LPA, devices=2, quorum=0.5, least_wait=0.2, **half)
    keep_updates(second)
    await second.run()

    store = site.store()
    rows, report = [row for n in (1, 2) for row in store.updates.counted(TASK, n)], store.rounds.report(TASK, 1)
    # This seed draws dev-a and the silent dev-d for the first round; the second is the others' turn.
    assert second.epoch == first.epoch + 1
    assert (opened.state, invited) == ("collecting", ["dev-a", "dev-d"])
    assert report["invited"] == ["dev-a", "dev-d"]
    assert [(d.number, d.state, d.invited, d.counted) for d in site.done] == [(n, "published", 2, 1) for n in (1, 2)]
    assert rows[:1] == before
    assert [encode(d.model) for d in site.done] == recomputed(second, rows, 2)[1:]


@pytest.mark.slow
@on_site
async def test_a_device_that_left_meanwhile_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auricle_cloud.rounds.upkeep.HEARD_WITHIN", 2.0)
    coordinator = site.coordinator(1, FEDAVG, devices=2, quorum=1.0)
    # It was online when the last coordinator ended.
    coordinator.store.devices.register(register("dev-gone", pack=site.pack.identity, samples=1), "approved")
    site.start_agents(coordinator, DEVICES[:2])
    await coordinator.run()

    store = site.store()
    gone, here = store.devices.get("dev-gone"), store.devices.get("dev-a")
    (done,) = site.done
    assert (done.state, done.invited, done.counted) == ("published", 2, 2)
    assert (gone.online, gone.offline_since) == (False, gone.last_seen)
    assert here.last_seen > here.first_seen


@pytest.mark.parametrize("state", ["closing", "aggregated"])
@on_site
@pytest.mark.slow
async def test_a_coordinator_killed_while_it_made_the_model_makes_no_other(site: Site, state: str) -> None:
    first = site.coordinator(1, LPA)
    keep_updates(first)
    site.start_agents(first)
    await first.run()
    store = site.store()
    with store.database.writing() as tx:
        tx.execute(sa.update(schema.rounds).values(state=state))
        if state == "closing":
            tx.execute(sa.delete(schema.models).where(schema.models.c.version == 1))
            tx.execute(sa.update(schema.tasks).values(current=0))

    second = site.coordinator(2, LPA)
    keep_updates(second)
    await second.run()

    store = site.store()
    rows = [row for number in (1, 2) for row in store.updates.counted(TASK, number)]
    models, current, last = recomputed(second, rows, 2), store.models.current(TASK), store.rounds.newest(TASK)
    came = [(d.number, d.state, d.counted + d.left_out) for d in site.done[-2:]]
    assert came == [(1, "published", 3), (2, "published", 3)]
    assert [encode(d.model) for d in site.done[-2:]] == models[1:]
    assert current.blob == digest(models[2])
    assert OptimizerState.from_bytes(second.blobs.get(current.optimizer), site.pack.plugin_table.size).step == 2
    assert last.state == "published"


@on_site
async def test_presence_says_goodbye_names_the_epoch_and_leaves_no_device_online(site: Site) -> None:
    coordinator = site.coordinator(1, devices=1)
    site.start_agents(coordinator, DEVICES[:1])
    said: list[CoordinatorState] = []
    left = asyncio.Event()

    async def note(arrived: Delivery) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: coordinator.identity.public)
        said.append(message)
        if not message.online:
            left.set()

    observer = LinkSettings(site.broker.address("observer"), "observer")
    async with MqttLink(observer, handlers={TOPICS.coordinator_state: note}):
        await coordinator.run()
        await asyncio.wait_for(left.wait(), 10)

    assert [(s.online, s.epoch) for s in said] == [(True, 1), (False, 1)]
    store = site.store()
    assert store.devices.unheard() == set(DEVICES[:1]), "nobody hears a device once the coordinator has left"


@on_site
async def test_when_updates_came_is_remembered_of_registered_devices_only(site: Site) -> None:
    coordinator = site.coordinator(1, devices=1)
    coordinator.inbox.keys[DEVICES[0]] = b"k" * 32
    for name in (*DEVICES, "dev-unknown"):
        coordinator._take(Delivery(TOPICS.up(name, "upd"), b"noise", 1, False, False, 1, 1))
    assert list(coordinator.dispatcher._came) == [DEVICES[0]]
    coordinator.store.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"participation": 0.0},
        {"quorum": 1.5},
        {"rounds": 0},
        *({"deadline": seconds} for seconds in (0.0, float("nan"), float("inf"))),
        {"preset": Preset(PLAN, MethodSettings("lap"))},
        {"preset": Preset(PLAN, MethodSettings("lpa", {"prune_high": 1.0}))},
    ],
)
def test_settings_that_no_round_could_be_run_with(tmp_path: Path, changes: dict[str, Any]) -> None:
    RunSettings(FLEET, BrokerAddress("h"), tmp_path)
    with pytest.raises((AuricleError, SettingsError)):
        RunSettings(FLEET, BrokerAddress("h"), tmp_path, **changes)


@on_site
@pytest.mark.slow
async def test_a_pack_is_what_is_trained(site: Site) -> None:
    settings = RunSettings(FLEET, site.broker.address(NAME), site.state, 1, devices=1, gather=3.0)
    coordinator = Coordinator(settings, load_pack("gsc12"))
    site.start_agents(coordinator, DEVICES[:1])
    with pytest.raises(AuricleError, match="dev-a has"):
        await coordinator.run()


@on_site
@pytest.mark.slow
async def test_while_all_devices_are_away_no_round_is_spent(site: Site) -> None:
    coordinator = site.coordinator(6, FEDAVG, devices=1, deadline=30.0)
    site.start_agents(coordinator, DEVICES[:1])
    running = asyncio.create_task(coordinator.run())
    await site.rounds(1)

    await site.stop_agents()
    site.start_agents(coordinator, DEVICES[:1])
    await running

    states = [d.state for d in site.done]
    assert len(states) == 6
    assert states.count("published") >= 5


@on_site
@pytest.mark.slow
async def test_a_failure_in_an_earlier_round_says_nothing_about_this_one(site: Site) -> None:
    key = Identity.create()
    coordinator = site.coordinator(2, FEDAVG, devices=4, quorum=0.7, least_wait=0.2)
    site.start_agents(coordinator)
    async with site.scripted("dev-d", key) as link:
        await fails_in_round_one("dev-d", key, link)
        await coordinator.run()
    assert [d.report["failed"] for d in site.done] == [{"dev-d": "x"}, {}]
