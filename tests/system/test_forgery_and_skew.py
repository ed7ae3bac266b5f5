"""Forged, recorded and newer messages at a device, by TLS through a real mosquitto (RELIABILITY C7 and U1).

Whoever forges has the broker in his hands, and with it the coordinator's place there, but not the coordinator's key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from auricle.packs.pack import load_pack
from auricle.wire.frames import CHUNK, UPGRADE, seal
from auricle.wire.messages import Invite, Message, Status, Update
from auricle.wire.tensors import digest, encode
from auricle_edge.fleet.agent import Agent
from auricle_learning.runtimes import StepRuntime
from tests.cloud.desk import signed
from tests.edge.agent_site import DEVICE, KEY, OTHER, TASK, TOPICS, Site, until, with_broker
from tests.recorder import Record
from tests.system.tls_site import NEEDS_MOSQUITTO, running

pytestmark = [NEEDS_MOSQUITTO, pytest.mark.slow]
INVITED = TOPICS.down(DEVICE, "inv")


@pytest.fixture(scope="module")
def runtime() -> StepRuntime:
    return StepRuntime(load_pack("digits"))


async def over_tls(case: Callable[[Site], Awaitable[None]], runtime: StepRuntime, folder: Path) -> None:
    async with running(folder) as site:
        await with_broker(case, runtime, folder, site)


async def trains(site: Site, agent: Agent, number: int, epoch: int = 5) -> None:
    """An honest round is taken part in, from its own model."""
    c = site.coordinator
    await c.say("inv", c.invite(site.model, number, epoch))
    update = await c.wait(Update, len(c.said(Update)) + 1)
    assert (update.round, update.base) == (number, digest(site.model))
    await c.ack(update, epoch=epoch)
    await until(lambda: agent.state == "idle")


def header(message: Message, **changes: object) -> dict[str, object]:
    """A message as it lies in a header, with changes that its type does not allow."""
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    return {**fields, "nonce": "made-by-hand", **changes}


@pytest.mark.reliability("C7", load="a forged invitation")
async def test_a_model_is_taken_from_nobody_without_the_coordinators_key(
    runtime: StepRuntime, tmp_path: Path, record_property: Record
) -> None:
    """C7, bad signature: not obeyed, not trained from, and the next honest round is taken part in."""

    async def case(site: Site) -> None:
        c, forged = site.coordinator, encode(runtime.pack.plugin_table.initial(66))
        await c.offer(forged)
        async with site.device() as agent:
            await trains(site, agent, 1)
            await c.say("inv", c.invite(forged, 2), key=OTHER)
            cut = seal(KEY, INVITED, c.invite(forged, 2))
            await c.link.publish(INVITED, cut[:-1] + bytes([cut[-1] ^ 1]))
            await c.barrier()
            record_property("accepted", len(c.said(Update)) - 1)
            assert len(c.said(Update)) == 1
            await trains(site, agent, 2)
            record_property("honest rounds", len(c.said(Update)))

    await over_tls(case, runtime, tmp_path)


@pytest.mark.reliability("C6", load="recorded invitations played back")
async def test_recorded_invitations_do_not_bring_an_old_model_back(
    runtime: StepRuntime, tmp_path: Path, record_property: Record
) -> None:
    """C7, rollback and freeze: what was said before, in this epoch or an older one, is not said again by a copy."""

    async def case(site: Site) -> None:
        c, old = site.coordinator, encode(runtime.pack.plugin_table.initial(66))
        await c.offer(old)
        recorded = seal(KEY, INVITED, c.invite(old, 1, epoch=4))
        async with site.device() as agent:
            await c.link.publish(INVITED, recorded)
            update = await c.wait(Update)
            await c.ack(update, epoch=4)
            await until(lambda: agent.state == "idle")
            await trains(site, agent, 2, epoch=4)
            count = len(c.said(Update))
            await c.link.publish(INVITED, recorded)
            await c.barrier(epoch=4)
            played = len(c.said(Update)) - count
            assert agent.state == "idle"
            await trains(site, agent, 3, epoch=5)
            await c.link.publish(INVITED, recorded)
            await c.link.publish(INVITED, seal(KEY, INVITED, c.invite(old, 4, epoch=4)))
            await c.barrier()
            record_property("rounds doubled by a copy", played + len(c.said(Update)) - count - 1)
            record_property("honest rounds", count + 1)
            assert len(c.said(Update)) == count + 1
            assert agent.state == "idle"

    await over_tls(case, runtime, tmp_path)


@pytest.mark.reliability("C7", load="right signature, another blob")
@pytest.mark.parametrize("how", ["another model", "endless", "never"])
async def test_a_model_that_is_not_the_signed_one_is_reported_and_never_loaded(
    runtime: StepRuntime, tmp_path: Path, how: str, record_property: Record
) -> None:
    """C7, a good signature over another blob, or one that does not end: the device keeps what it has and says so."""

    async def case(site: Site) -> None:
        c, promised = site.coordinator, encode(runtime.pack.plugin_table.initial(67))
        name, other = digest(promised), encode(runtime.pack.plugin_table.initial(68))

        async def flood() -> None:
            while True:
                for part in (0, 1, 2, 9, 4095):
                    await c.link.publish(TOPICS.blob(name, part), b"\0" * CHUNK)
                await asyncio.sleep(0)

        async with site.device(fetch_timeout=2.0) as agent:
            await trains(site, agent, 1)
            before = agent.rounds.local
            if how == "another model":
                await c.offer(other, name=name)
            attack = asyncio.create_task(flood()) if how == "endless" else None
            await c.say("inv", c.invite(promised, 2))
            status = await c.wait(Status)
            if attack is not None:
                attack.cancel()
                await asyncio.gather(attack, return_exceptions=True)
            await until(lambda: agent.state == "idle")
            assert (status.state, status.round, status.task) == ("failed", 2, TASK)
            assert name[:12] in status.reason
            record_property("accepted", int(agent.rounds.local is not before))
            assert agent.rounds.local is before
            assert len(c.said(Update)) == 1
            await trains(site, agent, 3)
            record_property("honest rounds", len(c.said(Update)))

    await over_tls(case, runtime, tmp_path)


@pytest.mark.reliability("U1", load="unknown keys")
async def test_keys_that_a_newer_coordinator_adds_are_passed_over(
    runtime: StepRuntime, tmp_path: Path, record_property: Record
) -> None:
    async def case(site: Site) -> None:
        c = site.coordinator
        async with site.device() as agent:
            newer = header(c.invite(site.model), priority="high", hints={"a": [1, 2]})
            await c.link.publish(INVITED, signed(KEY, INVITED, newer))
            update = await c.wait(Update)
            await c.ack(update)
            await until(lambda: agent.state == "idle")
            record_property("updates to a newer coordinator", len(c.said(Update)))

    await over_tls(case, runtime, tmp_path)


@pytest.mark.reliability("U1", load="another major version")
async def test_another_major_version_is_refused_by_name_and_the_coordinator_is_told(
    runtime: StepRuntime, tmp_path: Path, record_property: Record
) -> None:
    async def case(site: Site) -> None:
        c = site.coordinator
        async with site.device() as agent:
            await c.link.publish(INVITED, signed(KEY, INVITED, header(c.invite(site.model), schema=2)))
            status = await c.wait(Status)
            assert (status.state, status.reason.split(":")[0]) == ("failed", UPGRADE)
            record_property("accepted", len(c.said(Update)))
            record_property("upgrades asked for", len(c.said(Status)))
            assert c.said(Update) == []
            await trains(site, agent, 2)

    await over_tls(case, runtime, tmp_path)


@pytest.mark.reliability("U1", load="an unknown kind of message")
async def test_a_message_of_an_unknown_kind_changes_nothing(
    runtime: StepRuntime, tmp_path: Path, record_property: Record
) -> None:
    async def case(site: Site) -> None:
        c = site.coordinator
        async with site.device() as agent:
            invite: Invite = c.invite(site.model)
            await c.link.publish(INVITED, signed(KEY, INVITED, header(invite, type="celebrate")))
            await c.barrier()
            record_property("accepted", len(c.said(Update)))
            assert agent.state == "idle"
            await trains(site, agent, 1)

    await over_tls(case, runtime, tmp_path)
