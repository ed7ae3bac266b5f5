"""A device whose fleet runs another pack than its own: what it says, and who hears it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.edge.agent_site import FLEET, KEY, OTHER, TASK, TOPICS, Site, run, until
from tests.edge.test_control import Device

from auricle.packs.pack import load_pack
from auricle.process.cli import main
from auricle.wire.frames import seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Model
from auricle_edge.control import ControlServer, ControlSettings
from auricle_edge.fleet.fleet_word import FleetPack, other_pack
from auricle_edge.listening.capture.state import CaptureState
from auricle_edge.runtimes import StepRuntime
from auricle_edge.service.answers import FleetStatus

HOME = load_pack("home")


def test_the_same_pack_or_none_that_is_known_needs_no_word() -> None:
    assert other_pack("den", None, HOME) is None
    assert other_pack("den", FleetPack(HOME.identity, "whatever it is called"), HOME) is None


def test_another_pack_is_named_with_what_to_do() -> None:
    assert other_pack("den", FleetPack("ab" * 32, "gsc12"), HOME) == (
        f"The fleet den runs the pack gsc12 (abababababab), this device home ({HOME.identity[:12]}): it listens, but "
        "takes no part in rounds. Start the device with --pack gsc12, or the coordinator with --pack home."
    )
    unnamed = other_pack("den", FleetPack("ab" * 32, ""), HOME)
    assert unnamed is not None and "Start the device with the fleet's pack (--pack), or the coordinator" in unnamed
    older = other_pack("den", FleetPack("ab" * 32, "home"), HOME)
    assert older is not None and older.endswith("of the pack, on the device and the coordinator.")


def test_a_device_learns_from_the_fleets_model_that_it_has_another_pack(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once, whatever models follow; only by the fleet's own coordinator, and taken back with the same pack."""
    digits, other = load_pack("digits"), "ab" * 32

    async def offered(site: Site, pack: str, name: str, key: Identity = KEY) -> None:
        manifest = Model(
            fleet=FLEET,
            device="coordinator",
            boot="c",
            task=TASK,
            version=1,
            epoch=5,
            pack=pack,
            pack_name=name,
            blob="cd" * 32,
            length=4,
            codec="float32",
            chunks=1,
            ttl=60.0,
        )
        await site.coordinator.link.publish(TOPICS.model, seal(key, TOPICS.model, manifest), retain=True)
        await site.coordinator.barrier()

    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if "runs the pack" in record.getMessage()]

    async def case(site: Site) -> None:
        async with site.device() as agent:
            assert agent.other_pack is None
            await offered(site, other, "gsc12", key=OTHER)
            assert agent.other_pack is None
            for _ in range(2):
                await offered(site, other, "gsc12")
            assert agent.other_pack is not None and "Start the device with --pack gsc12" in agent.other_pack
            assert warnings() == [agent.other_pack]
        async with site.device() as again:
            await until(lambda: again.other_pack is not None)
            assert again.other_pack == warnings()[0], "the model is retained"
            await offered(site, digits.identity, "digits")
            assert again.other_pack is None

    run(case, StepRuntime(digits), tmp_path)


class Asked(msgspec.Struct):
    capture: CaptureState
    fleet: FleetStatus


class Apart(Device):
    """A service that listens, in a fleet that runs another pack."""

    def status(self) -> msgspec.Struct:
        """What `auricle edge doctor` asks for."""
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
    assert findings["fleet"]["verdict"] == "bad"
    assert findings["fleet"]["sentence"] == "The fleet den runs the pack gsc12."
    assert findings["microphone"]["verdict"] == "good"
    assert findings["pack"]["sentence"].startswith("home (")
