"""What an agent says of its fleet: connected, waiting for approval, a round trained, refused; and a wrong key."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.edge.agent_site import DEVICE, FLEET, KEY, OTHER, Site, run, until

from auricle.packs.pack import load_pack
from auricle.wire.messages import Nothing, Register, Update
from auricle_edge.commands.answer_commands import sentences
from auricle_edge.control import ControlClient, ControlServer, ControlSettings
from auricle_edge.runtimes import StepRuntime
from auricle_edge.service.answers import read_status
from auricle_edge.service.questions import TrainingOnly


@pytest.fixture(scope="module")
def runtime() -> StepRuntime:
    return StepRuntime(load_pack("digits"))


def told(standing: str, reason: str = "", key: str = "") -> Nothing:
    return Nothing(fleet=FLEET, device=DEVICE, boot="c", epoch=5, standing=standing, reason=reason, key=key)


def test_an_agent_says_what_is_true_now(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        c = site.coordinator
        async with site.device() as agent:
            await until(lambda: "connected to" in agent.word.sentence)
            await c.say("cmd", told("pending"))
            await until(lambda: f"devices approve {DEVICE}" in agent.word.sentence)
            await c.say("cmd", told("approved"))
            await until(lambda: agent.word.sentence == "approved: waits for the next round")
            await c.say("cmd", told("refused", "another board", key="0" * 16))
            await c.say("cmd", told("refused", "the name is in use", key=c.said(Register)[0].public_key.hex()[:16]))
            await until(lambda: agent.word.sentence == "refused: the name is in use")
            await c.say("inv", c.invite(site.model))
            await c.ack(await c.wait(Update))
            await until(lambda: agent.word.sentence == "round 1 trained, its update is accepted")

    run(case, runtime, tmp_path)


def test_a_wrong_coordinator_key_is_named(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        c = site.coordinator
        async with site.device() as agent:
            await c.say("cmd", told("approved"), key=OTHER)
            await until(lambda: "has another key than" in agent.word.sentence)
            assert KEY.public.hex()[:12] in agent.word.sentence
            assert "--coordinator" in agent.word.sentence

    run(case, runtime, tmp_path)


def test_status_knows_an_agent_that_learns_from_recordings(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        async with site.device() as agent:
            server = ControlServer(site.folder, TrainingOnly(agent, "CLIPS"), ControlSettings())
            try:
                said = list(sentences(read_status(ControlClient(site.folder).get("/v1/status"))))
            finally:
                server.close()
            assert said[1] == f"It learns from {len(agent.trainer.data.train)} clips of CLIPS and does not listen."
            assert said[2].startswith(f"Fleet {FLEET}: connected")

    run(case, runtime, tmp_path)
