"""The agent against a real broker and a coordinator's side that is scripted frame by frame."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.edge.agent_site import DEVICE, FLEET, KEY, OTHER, TASK, TOPICS, Site, at_site, until

from auricle.wire.frames import seal
from auricle.wire.messages import Abort, CoordinatorState, DeviceState, Invite, Register, Status, Update
from auricle.wire.plan import Plan
from auricle.wire.tensors import decode, digest, encode
from auricle_edge.fleet.incoming import _chunk_number


@at_site
async def test_an_invitation_is_answered_by_a_signed_update_and_forgotten_on_acknowledgement(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        await c.say("inv", c.invite(site.model))
        update = await c.wait(Update)
        kept = site.pending.read_bytes()
        await c.ack(update)
        await until(lambda: agent.state == "idle")

        start, trained = decode(site.model, site.runtime.pack.plugin_table.size), c.bodies()[0]
        assert (update.base, update.round, update.attempt, update.epoch) == (digest(site.model), 1, 1, 5)
        assert (update.body, update.length, update.samples) == (digest(trained), len(trained), 4)
        assert kept.endswith(trained)
        assert 0 < np.abs(decode(trained, start.size) - start).max() < 1
        assert update.loss == pytest.approx(np.log(10), abs=0.5)
        assert not site.pending.exists()
    gone = await c.wait(DeviceState, 2)
    assert [s.online for s in c.said(DeviceState)] == [True, False]
    assert gone.boot == agent.boot


@at_site
async def test_without_an_answer_the_same_attempt_comes_again(site: Site) -> None:
    c = site.coordinator
    async with site.device(resend_every=0.1) as agent:
        await c.say("inv", c.invite(site.model))
        await c.wait(Update, 3)
        await c.say("inv", c.invite(site.model))
        await c.ack((await c.wait(Update)), body="0" * 64)
        last = await c.wait(Update, 4)
        await c.ack(last)
        await until(lambda: agent.state == "idle")
        assert {(u.attempt, u.body, u.round) for u in c.said(Update)} == {(1, last.body, 1)}
        assert len(set(c.bodies())) == 1
        assert not site.pending.exists()


@at_site
async def test_a_device_started_again_resends_what_it_had_trained(site: Site) -> None:
    c = site.coordinator
    async with site.device() as first:
        await c.say("inv", c.invite(site.model))
        before = await c.wait(Update)
    async with site.device() as second:
        after = await c.wait(Update, 2)
        await c.ack(after, "duplicate")
        await until(lambda: second.state == "idle")
        assert second.boot != first.boot
        assert after == before or (after.body, after.attempt) == (before.body, before.attempt)
        assert len(set(c.bodies())) == 1
        assert len({r.public_key for r in c.said(Register)}) == 1
        assert not site.pending.exists()


@at_site
async def test_rejected_and_late_updates_are_forgotten_too_and_the_next_round_goes_on(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        for number, verdict in ((1, "rejected:base"), (2, "late"), (3, "conflict"), (4, "accepted")):
            await c.say("inv", c.invite(site.model, number))
            update = await c.wait(Update, number)
            await c.ack(update, verdict)
            await until(lambda: agent.state == "idle")
            assert update.round == number
            assert not site.pending.exists()
        # The model that did not change was fetched once; the device's own model moved on from round to round.
        assert len({u.body for u in c.said(Update)}) == 4


@at_site
async def test_nobody_but_the_coordinator_is_obeyed(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        await c.say("inv", c.invite(site.model), key=OTHER)
        await c.link.publish(TOPICS.down(DEVICE, "inv"), b"noise")
        moved = seal(KEY, TOPICS.down("dev-b", "inv"), c.invite(site.model))
        await c.link.publish(TOPICS.down(DEVICE, "inv"), moved)
        invite = c.invite(site.model)
        topic = TOPICS.down(DEVICE, "inv")
        for changes in ({"device": "dev-b"}, {"fleet": "g"}):
            other = Invite(**{**{f: getattr(invite, f) for f in invite.__struct_fields__}, **changes})
            await c.link.publish(topic, seal(KEY, topic, other))
        await c.barrier()
        assert agent.state == "idle"
        assert agent.work._task is None
        assert c.said(Update) == c.said(Status) == []


@at_site
async def test_a_coordinator_of_an_older_epoch_is_not_obeyed(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        await c.say("inv", c.invite(site.model, 1, epoch=5))
        update = await c.wait(Update)
        await c.ack(update, epoch=4)
        await c.say("inv", c.invite(site.model, 2, epoch=4))
        await c.barrier(epoch=5)
        still = site.pending.exists()
        await c.ack(update, epoch=6)
        await until(lambda: agent.state == "idle")
        assert still
        assert [u.round for u in c.said(Update)] in ([1], [1, 1])
        assert not site.pending.exists()


@pytest.mark.parametrize("how", ["other bytes", "too long", "not finite", "wrong size", "missing"])
@at_site
@pytest.mark.slow
async def test_a_model_that_is_not_the_promised_one_is_reported_and_never_trained(site: Site, how: str) -> None:
    c = site.coordinator
    model = encode(site.runtime.pack.plugin_table.initial(4))
    invite = c.invite(model)
    if how == "other bytes":
        await c.offer(site.model, name=digest(model))
    elif how == "too long":
        await c.offer(model + b"more", name=digest(model))
    elif how == "not finite":
        model = np.full(len(model) // 4, np.nan, "<f4").tobytes()
        await c.offer(model)
        invite = c.invite(model)
    elif how == "wrong size":
        await c.offer(model[:400])
        invite = c.invite(model[:400])
    async with site.device(fetch_timeout=1.0) as agent:
        await c.say("inv", invite)
        status = await c.wait(Status)
        await until(lambda: agent.state == "idle")

        assert (status.state, status.round, status.task) == ("failed", 1, TASK)
        assert status.reason
        assert c.said(Update) == []
        assert not (site.folder / "local.safetensors").exists()
        assert not site.pending.exists()


@at_site
async def test_an_abort_stops_the_training(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        await c.say("inv", c.invite(site.model, plan=Plan(epochs=1000)))
        await until(lambda: agent.state == "training")
        await c.say("cmd", Abort(fleet=FLEET, device=DEVICE, boot="c", task=TASK, round=9, epoch=5))
        await c.barrier()
        going_on = agent.work.busy
        await c.say("cmd", Abort(fleet=FLEET, device=DEVICE, boot="c", task=TASK, round=1, epoch=5))
        await c.barrier()
        free = asyncio.get_running_loop().run_in_executor(agent.rounds._executor, lambda: True)

        assert going_on
        assert await asyncio.wait_for(free, 10)
        assert not agent.work.busy
        assert agent.state == "idle"
        assert c.said(Update) == []
        await c.say("inv", c.invite(site.model, 2))
        update = await c.wait(Update)
        assert update.round == 2


@at_site
async def test_a_newer_round_ends_the_training_of_the_one_before(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        await c.say("inv", c.invite(site.model, 1, plan=Plan(epochs=1000)))
        await until(lambda: agent.state == "training")
        await c.say("inv", c.invite(site.model, 2))
        assert (await c.wait(Update)).round == 2


@at_site
async def test_a_coordinator_that_starts_again_is_registered_with_anew(site: Site) -> None:
    c = site.coordinator
    topic = TOPICS.coordinator_state
    async with site.device():
        for i, boot in enumerate(("one", "one", "two")):
            state = CoordinatorState(fleet=FLEET, device="coordinator", boot=boot, online=True, epoch=5 + i)
            await c.link.publish(topic, seal(KEY, topic, state), retain=True)
        await c.wait(Register, 3)
        replayed = CoordinatorState(fleet=FLEET, device="coordinator", boot="old", online=True, epoch=4)
        await c.link.publish(topic, seal(KEY, topic, replayed), retain=True)
        await c.barrier(epoch=7)
        assert len(c.said(Register)) == 4


@pytest.mark.parametrize("how", ["codec", "clips"])
@at_site
async def test_a_round_that_cannot_be_done_is_reported(site: Site, how: str) -> None:
    c = site.coordinator
    async with site.device() as agent:
        if how == "clips":
            agent.trainer.data.train.energies.fill(np.nan)
        await c.say("inv", c.invite(site.model, plan=Plan(codec="int4" if how == "codec" else "float32")))
        status = await c.wait(Status)
        await until(lambda: agent.state == "idle")
        assert status.state == "failed"
        assert ("int4" if how == "codec" else "not finite") in status.reason
        assert c.said(Update) == []
        assert not site.pending.exists()


@at_site
async def test_after_the_broker_lost_everything_the_update_still_arrives(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        await c.say("inv", c.invite(site.model))
        before = await c.wait(Update)
        heard = len(c.said(Update))
        site.broker.kill()
        await site.broker.restart()
        await until(lambda: all(link.connected and link.counters.connections > 1 for link in (agent.link, c.link)))
        await c.say("inv", c.invite(site.model))
        again = await c.wait(Update, heard + 1)
        await c.ack(again)
        await until(lambda: agent.state == "idle")
        assert again.body == before.body


# -- which chunk a topic names


@pytest.mark.parametrize("name", ["0", "2", "3", "-1", "", "+", "²", "٣", "1" * 5000], ids=range(9))
def test_only_a_chunk_that_was_promised_counts(name: str) -> None:
    assert _chunk_number(f"auricle/1/home/b/ab/{name}", chunks=3) == {"0": 0, "2": 2}.get(name)


@given(st.text(max_size=8), st.integers(1, 4096))
@pytest.mark.slow
def test_no_topic_crashes_the_reader(name: str, chunks: int) -> None:
    number = _chunk_number(f"b/{name}", chunks)
    assert number is None or 0 <= number < chunks
