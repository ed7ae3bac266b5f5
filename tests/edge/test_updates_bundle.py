"""Root's part: a signed bundle from a server into the other slot of a device in a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.edge.slots_bundle import Device, identity, make_bundle, pack, quick_folder
from tests.edge.update_site import Server, cut, serving, whole

from auricle_edge.ota.bundle_upgrade import BundleUpgrade
from auricle_edge.ota.records import Answer, Wanted
from auricle_edge.ota.slots.commands import main as guard
from auricle_edge.settings import PATIENCE_FACTOR, EdgeSettings, UpdateSettings


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as made:
        yield made


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def device(folder: Path, server: Server) -> Device:
    """It runs 1.0, which has brought the root."""
    made = Device(folder / "device")
    old = make_bundle(folder / "old", "1.0", more={"tuf/root.json": server.repository.root})
    assert guard(["install", "--root", str(made.root), str(old)]) == 0
    return made


def release(folder: Path, server: Server, version: str, custom: dict[str, Any] | None = None, **facts: Any) -> Wanted:
    """Make and offer a bundle; what a coordinator says of it. `custom` is what is signed instead."""
    made = make_bundle(folder / f"new-{version}", version, more={"tuf/root.json": server.repository.root}, **facts)
    archive, name = pack(made, folder / f"{version}.tar"), identity(made)
    told = {"kind": "bundle", "identity": name, "version": version, "board": "pi5", "os": "raspios-12", "fleet": "home"}
    path = f"bundle/pi5/raspios-12/{name[:12]}.tar"
    server.repository.add(path, archive.read_bytes(), {**told, **(custom or {})})
    return Wanted(rollout="r7", path=path, identity=name)


def upgrade(device: Device, server: Server, wanted: Wanted) -> Answer:
    settings = EdgeSettings(device="kitchen-1", state="/var/lib/auricle", updates=UpdateSettings(url=server.url))
    answer = BundleUpgrade(settings, device.root, lambda _: None).run(wanted)
    told = json.loads((device.home / "update.json").read_bytes())
    assert (told["state"], told["rollout"], told["reason"]) == (answer.state, wanted.rollout, answer.reason)
    return answer


def test_a_signed_newer_bundle_is_staged_and_tried(folder: Path, device: Device, server: Server) -> None:
    wanted = release(folder, server, "1.1")
    assert upgrade(device, server, wanted).state == "staged"
    trial = device.journal()["trial"]
    assert (trial["identity"], trial["rollout"], trial["starts"]) == (wanted.identity, "r7", 0)
    assert trial["deadline_seconds"] == PATIENCE_FACTOR * UpdateSettings().health_seconds
    assert device.probe() == "1.1"
    assert not list((device.home / "download").iterdir())
    assert upgrade(device, server, wanted).reason == "Another bundle is on trial."


REFUSED: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "board": ("1.1", {"board": "pi4"}, {}, "board pi4"),
    "system": ("1.1", {"os": "raspios-13"}, {}, "raspios-13"),
    "fleet": ("1.1", {"fleet": "office"}, {}, "office"),
    "older": ("0.9", {}, {}, "not above the 1.0"),
    "older-said-to-be-newer": ("0.9", {"version": "1.1"}, {}, "another version"),
    "board-hidden": ("1.1", {}, {"board": "pi4"}, "another version"),
    "other-identity": ("1.1", {"identity": "4" * 64}, {}, "444444444444"),
    "pack": ("1.1", {"kind": "pack"}, {}, "as a pack"),
    "other-python": ("1.1", {}, {"python": "3.9"}, "Python 3.9"),
    "other-base": ("1.1", {}, {"base": "trixie"}, "trixie"),
}


@pytest.mark.parametrize(("version", "custom", "facts", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_for_this_device_is_refused_and_it_runs_on(
    version: str, custom: dict[str, Any], facts: dict[str, Any], says: str, folder: Path, device: Device, server: Server
) -> None:
    before = device.journal()
    answer = upgrade(device, server, release(folder, server, version, custom, **facts))
    assert (answer.state, says in answer.reason) == ("refused", True), answer.reason
    assert device.journal() == before
    assert device.probe() == "1.0"


def place(server: Server, wanted: Wanted) -> str:
    return next(path for path in server.repository.files if path.endswith(f"{str(wanted.identity)[:12]}.tar"))


def test_a_target_that_is_not_what_was_signed_is_refused(folder: Path, device: Device, server: Server) -> None:
    unknown = Wanted(rollout="r1", path="bundle/pi5/raspios-12/000000000000.tar", identity="0" * 64)
    assert "not among" in upgrade(device, server, unknown).reason
    wanted = release(folder, server, "1.1")
    changed = bytearray(server.repository.files[place(server, wanted)])
    changed[5000] ^= 1
    server.instead[place(server, wanted)] = whole(bytes(changed))
    assert "not what was signed" in upgrade(device, server, wanted).reason
    assert device.probe() == "1.0"


def test_after_a_network_failure_the_download_goes_on_later(folder: Path, device: Device, server: Server) -> None:
    wanted = release(folder, server, "1.1")
    at = place(server, wanted)

    def first(request: Any) -> None:
        server.instead[at] = lambda again: again.send_error(503)
        cut(server.repository.files[at], 3000)(request)

    server.instead[at] = first
    assert upgrade(device, server, wanted).state == "later"
    server.instead.clear()
    assert upgrade(device, server, wanted).state == "staged"
    assert server.asked[-1] == (at, "bytes=3000-")


def test_a_power_cut_between_staging_and_trying_is_made_good(folder: Path, device: Device, server: Server) -> None:
    wanted = release(folder, server, "1.1")
    staged = ["stage", "--root", str(device.root), str(folder / "1.1.tar"), "--identity", str(wanted.identity)]
    assert guard(staged) == 0
    assert upgrade(device, server, wanted).state == "staged"
    assert device.probe() == "1.1"


def test_what_was_given_back_is_not_tried_again_in_its_rollout(folder: Path, device: Device, server: Server) -> None:
    wanted = release(folder, server, "1.1")
    assert upgrade(device, server, wanted).state == "staged"
    guard(["revert", "--root", str(device.root), "--reason", "it was switched off"])
    again = upgrade(device, server, wanted)  # at the next boot, before the agent has taken its note away
    assert again.state == "refused" and "it was switched off" in again.reason
    assert device.probe() == "1.0"
    assert upgrade(device, server, msgspec.structs.replace(wanted, rollout="r7.2")).state == "staged"


def test_without_being_asked_it_takes_the_newest_that_fits(folder: Path, device: Device, server: Server) -> None:
    assert upgrade(device, server, Wanted()).state == "idle"
    release(folder, server, "0.9")
    release(folder, server, "1.10")
    wanted = release(folder, server, "1.2")
    release(folder, server, "3.0", {"board": "pi4"})
    assert upgrade(device, server, Wanted()).state == "staged"
    assert device.probe() == "1.10"
    guard(["revert", "--root", str(device.root), "--reason", "it crashed"])
    assert upgrade(device, server, Wanted()).state == "staged"
    assert device.journal()["trial"]["identity"] == wanted.identity


def test_a_device_without_a_bundle_or_root_says_so(folder: Path, device: Device, server: Server) -> None:
    bare = Device(folder / "bare")
    bare.home.mkdir(parents=True)
    assert "no bundle" in upgrade(bare, server, Wanted()).reason
    (device.home / "a/tuf/root.json").unlink()
    assert "no root" in upgrade(device, server, Wanted()).reason


@pytest.mark.slow
def test_the_command_says_how_it_ended(folder: Path, device: Device, server: Server) -> None:
    config, wanted = folder / "edge.toml", folder / "wanted.json"
    config.write_text(f'device = "kitchen-1"\nstate = "/var/lib/auricle"\n[updates]\nurl = "{server.url}"\n')

    def command() -> tuple[int, dict[str, Any]]:
        options = ["--config", config, "--root", device.root, "--json", "--wanted", wanted]
        program = [sys.executable, "-m", "auricle", "edge", "update", *map(str, options)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    assert command() == (0, {"state": "idle"})
    asked = release(folder, server, "1.1")
    for name, code, state in (("9" * 64, 2, "refused"), (asked.identity, 0, "staged")):
        wanted.write_text(json.dumps({"rollout": "r7", "path": asked.path, "identity": name}))
        ended, said = command()
        assert (ended, said["state"], said["rollout"]) == (code, state, "r7")
