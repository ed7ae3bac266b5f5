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
from tests.edge.update_site import NOW, Repository, Server, cut, serving, whole

from auricle_edge.ota.bundle_upgrade import BundleUpgrade
from auricle_edge.ota.records import Answer, Wanted
from auricle_edge.ota.slots.commands import main as guard
from auricle_edge.settings import PATIENCE, EdgeSettings, UpdateSettings

FOREVER = NOW.replace(year=2100)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as made:
        yield made


@pytest.fixture
def server() -> Iterator[Server]:
    repository = Repository()
    for part in repository.parts.values():
        part.expires = FOREVER
    repository.publish_root()
    repository.publish()
    with serving(repository) as running:
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
    assert trial["deadline_seconds"] == PATIENCE * UpdateSettings().health_seconds
    assert device.probe() == "1.1"
    assert not list((device.home / "download").iterdir())
    assert upgrade(device, server, wanted).reason == "Another bundle is on trial."


REFUSED: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "board": ("1.1", {"board": "pi4"}, {}, "for the board pi4; this device's is pi5"),
    "system": ("1.1", {"os": "raspios-13"}, {}, "for the system raspios-13"),
    "fleet": ("1.1", {"fleet": "office"}, {}, "for the fleet office"),
    "older": ("0.9", {}, {}, "not above the 1.0"),
    "older-said-to-be-newer": ("0.9", {"version": "1.1"}, {}, "another version, board, system or fleet"),
    "board-hidden": ("1.1", {}, {"board": "pi4"}, "another version, board, system or fleet"),
    "other-identity": ("1.1", {"identity": "4" * 64}, {}, "signed as 444444444444 and was sent as"),
    "pack": ("1.1", {"kind": "pack"}, {}, "signed as a pack and was sent as a bundle"),
    "other-python": ("1.1", {}, {"python": "3.9"}, "This bundle is for Python 3.9"),
    "other-base": ("1.1", {}, {"base": "trixie"}, "This bundle is for trixie"),
}


@pytest.mark.parametrize(("version", "custom", "facts", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_for_this_device_is_refused_and_it_runs_on(
    version: str,
    custom: dict[str, Any],
    facts: dict[str, Any],
    says: str,
    folder: Path,
    device: Device,
    server: Server,
) -> None:
    before = device.journal()
    answer = upgrade(device, server, release(folder, server, version, custom, **facts))
    assert (answer.state, says in answer.reason) == ("refused", True), answer.reason
    assert device.journal() == before
    assert device.probe() == "1.0"


def test_a_target_that_is_not_signed_or_not_what_was_signed_is_refused(
    folder: Path, device: Device, server: Server
) -> None:
    unknown = Wanted(rollout="r1", path="bundle/pi5/raspios-12/000000000000.tar", identity="0" * 64)
    assert "is not among the signed targets" in upgrade(device, server, unknown).reason
    wanted = release(folder, server, "1.1")
    place = next(path for path in server.repository.files if path.endswith(f"{(wanted.identity or '')[:12]}.tar"))
    changed = bytearray(server.repository.files[place])
    changed[5000] ^= 1
    server.instead[place] = whole(bytes(changed))
    assert "is not what was signed" in upgrade(device, server, wanted).reason
    assert device.probe() == "1.0"


def test_a_network_that_fails_is_no_refusal_and_the_download_goes_on_later(
    folder: Path, device: Device, server: Server
) -> None:
    wanted = release(folder, server, "1.1")
    place = next(path for path in server.repository.files if path.endswith(f"{(wanted.identity or '')[:12]}.tar"))
    content = server.repository.files[place]

    def first(request: Any) -> None:
        server.instead[place] = lambda again: again.send_error(503)
        cut(content, 3000)(request)

    server.instead[place] = first
    assert upgrade(device, server, wanted).state == "later"
    server.instead.clear()
    assert upgrade(device, server, wanted).state == "staged"
    assert server.asked[-1] == (place, "bytes=3000-")


def test_a_power_cut_between_staging_and_trying_is_made_good(folder: Path, device: Device, server: Server) -> None:
    wanted = release(folder, server, "1.1")
    staged = ["stage", "--root", str(device.root), str(folder / "1.1.tar"), "--identity", str(wanted.identity)]
    assert guard(staged) == 0
    assert upgrade(device, server, wanted).state == "staged"
    assert device.probe() == "1.1"


def test_what_was_given_back_is_not_tried_again_in_the_same_rollout(
    folder: Path, device: Device, server: Server
) -> None:
    wanted = release(folder, server, "1.1")
    assert upgrade(device, server, wanted).state == "staged"
    guard(["revert", "--root", str(device.root), "--reason", "the device was switched off"])

    again = upgrade(device, server, wanted)  # at the next boot, before the agent has taken its note away

    assert (again.state, again.reason) == ("refused", "It was tried already: the device was switched off")
    assert device.probe() == "1.0"
    assert upgrade(device, server, msgspec.structs.replace(wanted, rollout="r7.2")).state == "staged"


def test_without_being_asked_it_takes_the_newest_that_fits_and_did_not_fail(
    folder: Path, device: Device, server: Server
) -> None:
    nothing = upgrade(device, server, Wanted())
    assert (nothing.state, nothing.reason) == ("idle", "There is no newer bundle for this device.")
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
    assert "holds no bundle" in upgrade(bare, server, Wanted()).reason
    (device.home / "a/tuf/root.json").unlink()
    assert "was given no root" in upgrade(device, server, Wanted()).reason


@pytest.mark.slow
def test_the_command_says_how_it_ended(folder: Path, device: Device, server: Server) -> None:
    config, wanted = folder / "edge.toml", folder / "wanted.json"
    config.write_text(f'device = "kitchen-1"\nstate = "/var/lib/auricle"\n[updates]\nurl = "{server.url}"\n')

    def command(*more: str) -> tuple[int, dict[str, Any]]:
        arguments = ["edge", "update", "--config", str(config), "--root", str(device.root), "--json", *more]
        done = subprocess.run(
            [sys.executable, "-m", "auricle", *arguments], capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    assert command("--wanted", str(wanted)) == (0, {"state": "idle"})
    asked = release(folder, server, "1.1")
    wanted.write_text(json.dumps({"rollout": "r7", "path": asked.path, "identity": "9" * 64}))
    code, said = command("--wanted", str(wanted))
    assert (code, said["state"]) == (2, "refused")
    wanted.write_text(json.dumps({"rollout": "r7", "path": asked.path, "identity": asked.identity}))
    code, said = command("--wanted", str(wanted))
    assert (code, said["state"], said["rollout"]) == (0, "staged", "r7")
