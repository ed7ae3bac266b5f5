"""A device whose fleet runs another pack than its own: what it says, and who hears it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.edge.agent_site import DEVICE, FLEET, KEY, OTHER, TASK, TOPICS, Site, at_site, until
from tests.edge.test_control import Device

from auricle.packs.pack import load_pack
from auricle.process.cli import main
from auricle.wire.frames import seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Model, Nothing, Register, Update
from auricle_edge.commands.status_sentences import sentences
from auricle_edge.control import ControlClient, ControlServer, ControlSettings
from auricle_edge.fleet.fleet_word import FleetPack, other_pack
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.service.answers import FleetStatus, read_status
from auricle_edge.service.questions import TrainingOnly

HOME = load_pack("home")


def test_the_same_pack_or_none_that_is_known_needs_no_word() -> None:
    assert other_pack("den", None, HOME) is None
    assert other_pack("den", FleetPack(HOME.identity, "whatever it is called"), HOME) is None


@pytest.mark.parametrize(
    ("pack_name", "said"), [("gsc12", "--pack gsc12"), ("", "the fleet's pack (--pack)"), ("home", "of the pack, on")]
)
def test_another_pack_is_named_with_what_to_do(pack_name: str, said: str) -> None:
    assert said in (other_pack("den", FleetPack("ab" * 32, pack_name), HOME) or "")


async def offered(site: Site, pack: str, name: str, key: Identity = KEY) -> None:
    blob = {"blob": "cd" * 32, "length": 4, "codec": "float32", "chunks": 1, "ttl": 60.0}
    about = {"task": TASK, "version": 1, "epoch": 5, "pack": pack, "pack_name": name}
    manifest = Model(fleet=FLEET, device="coordinator", boot="c", **about, **blob)
    await site.coordinator.link.publish(TOPICS.model, seal(key, TOPICS.model, manifest), retain=True)
    await site.coordinator.barrier()


@at_site
async def test_a_device_learns_from_the_fleets_model_that_it_has_another_pack(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if "runs the pack" in record.getMessage()]

    async with site.device() as agent:
        await offered(site, "ab" * 32, "gsc12", key=OTHER)
        assert agent.other_pack is None
        for _ in range(2):
            await offered(site, "ab" * 32, "gsc12")
        assert agent.other_pack is not None and "Start the device with --pack gsc12" in agent.other_pack
        assert warnings() == [agent.other_pack]
    async with site.device() as again:
        await until(lambda: again.other_pack is not None)
        assert again.other_pack == warnings()[0], "the model is retained"
        await offered(site, site.runtime.pack.identity, "digits")
        assert again.other_pack is None


class Asked(msgspec.Struct):
    capture: CaptureState
    fleet: FleetStatus


class Apart(Device):
    """A service that listens, in a fleet that runs another pack."""

    def status(self) -> msgspec.Struct:
        other = "The fleet den runs the pack gsc12."
        fleet = FleetStatus(name="den", connected=True, state="idle", last_error=None, other_pack=other)
        return Asked(CaptureState(running=True, device="USB", native_rate=48_000), fleet)


def test_doctor_says_it_of_the_service_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = ControlServer(tmp_path, Apart(), ControlSettings())
    try:
        assert main(["edge", "doctor", "--state", str(tmp_path), "--json"]) == 1
    finally:
        server.close()
    findings = {found["check"]: found for found in json.loads(capsys.readouterr().out)["findings"]}
    assert (findings["fleet"]["verdict"], findings["microphone"]["verdict"]) == ("bad", "good")
    assert "gsc12" in findings["fleet"]["sentence"] and "home" in findings["pack"]["sentence"]


# -- what an agent says of its fleet: connected, waiting for approval, refused; and a wrong key


def answer(standing: str, reason: str = "", key: str = "") -> Nothing:
    return Nothing(fleet=FLEET, device=DEVICE, boot="c", epoch=5, standing=standing, reason=reason, key=key)


@at_site
async def test_an_agent_says_what_is_true_now(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        await until(lambda: "connected to" in agent.word.sentence)
        await c.say("cmd", answer("pending"))
        await until(lambda: f"devices approve {DEVICE}" in agent.word.sentence)
        await c.say("cmd", answer("approved"))
        await until(lambda: agent.word.sentence == "approved: waits for the next round")
        await c.say("cmd", answer("refused", "another board", key="0" * 16))
        await c.say("cmd", answer("refused", "the name is in use", key=c.said(Register)[0].public_key.hex()[:16]))
        await until(lambda: agent.word.sentence == "refused: the name is in use")
        await c.say("inv", c.invite(site.model))
        await c.ack(await c.wait(Update))
        await until(lambda: agent.word.sentence == "round 1 trained, its update is accepted")


@at_site
async def test_a_wrong_coordinator_key_is_named(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        await c.say("cmd", answer("approved"), key=OTHER)
        await until(lambda: "has another key than" in agent.word.sentence)
        assert KEY.public.hex()[:12] in agent.word.sentence
        assert "--coordinator" in agent.word.sentence


@at_site
async def test_status_knows_an_agent_that_learns_from_recordings(site: Site) -> None:
    async with site.device() as agent:
        server = ControlServer(site.folder, TrainingOnly(agent, "CLIPS"), ControlSettings())
        try:
            said = list(sentences(read_status(ControlClient(site.folder).get("/v1/status"))))
        finally:
            server.close()
        assert f"{len(agent.trainer.data.train)} clips of CLIPS" in said[1]
        assert f"Fleet {FLEET}: connected" in said[2]
