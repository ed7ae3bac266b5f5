"""Power cuts at every step of everything that slots.py does: a device always starts with a whole version that runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from tests.edge.slots_bundle import Device, identity, make_bundle, quick_folder

from auricle_edge.ota.slots.commands import main as guard
from auricle_edge.ota.slots.journal import other

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def site() -> Iterator[SimpleNamespace]:
    with quick_folder() as folder:
        device = Device(folder / "device")
        token = device.root / "boot/firmware/auricle.token"
        token.parent.mkdir(parents=True)
        token.write_text("secret\n")
        old, new = make_bundle(folder / "old", "1.0"), make_bundle(folder / "new", "2.0", more=EXTRA)
        (folder / "cut").mkdir()
        yield SimpleNamespace(folder=folder, device=device, old=old, new=new)


EXTRA: dict[str, bytes | None] = {
    "systemd/auricle-more.service": b"[Install]\nWantedBy=multi-user.target\n",
    "systemd/auricle-renew.timer": None,
}


def run(device: Device, command: str, *arguments: object) -> None:
    assert guard([command, "--root", str(device.root), *map(str, arguments)]) == 0


def installed(site: SimpleNamespace, *, staged: bool = False, on_trial: bool = False) -> None:
    run(site.device, "install", site.old)
    if staged or on_trial:
        run(site.device, "stage", site.new, "--identity", identity(site.new))
    if on_trial:
        run(site.device, "try", "--rollout", "r1")


def cuts(site: SimpleNamespace, *command: object) -> Iterator[Device]:
    """The device after a power cut at each step of a command, and its next boot; prints how many there are."""
    cut = [sys.executable, "-m", "tests.edge.slots_power", site.device.root, site.folder / "cut", *command]
    done = subprocess.run([*map(str, cut)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count = int(done.stdout)
    print(f"the power went at each of {count} steps of {command[0]}")
    for at in range(count + 1):
        device = Device(site.folder / "cut" / str(at))
        device.boot("next")
        yield device
        shutil.rmtree(device.root)


def whole(device: Device) -> str:
    """What holds after every boot: the journal can be read, the active slot is complete and runs, all agrees."""
    journal = device.journal()
    assert journal["confirmed"] is True and journal["trial"] is None
    assert (device.home / "current").readlink().name == journal["active"]
    assert (device.home / "current/bundle.json").stat().st_size > 0
    version = device.probe()
    assert device.guard() == version
    assert (device.root / "etc/auricle/edge.toml").read_text() == f"# settings of {version}\n"
    units = device.root / "etc/systemd/system"
    assert {each.name for each in units.glob("auricle-*.*") if each.is_file()} == {
        each.name for each in (device.home / "current/systemd").iterdir() if each.is_file()
    }
    for each in (device.home / "current/systemd").iterdir():
        if each.is_file():
            assert (units / each.name).read_bytes() == each.read_bytes()
            for target in re.findall(r"(?m)^WantedBy=(.+)$", each.read_text()):
                assert (units / f"{target}.wants" / each.name).resolve() == units / each.name
    spare = device.home / other(journal["active"])
    assert not [path for path in device.root.rglob(".*.tmp") if spare not in path.parents]
    return version


@pytest.mark.nightly
def test_while_it_is_installed(site: SimpleNamespace) -> None:
    for device in cuts(site, "install", site.old):
        run(device, "check")
        if (device.home / "slots.json").exists():
            assert whole(device) == "1.0"
        run(device, "install", site.old)
        assert whole(device) == "1.0"
        assert (device.root / "etc/auricle/claim.token").read_text() == "secret\n"
        assert not (device.root / "boot/firmware/auricle.token").exists()


@pytest.mark.parametrize("before", ["1.0", "2.0"], ids=["an empty slot", "the version before"])
@pytest.mark.nightly
def test_while_a_version_is_staged(site: SimpleNamespace, before: str) -> None:
    installed(site, staged=before == "2.0")
    new = site.new if before == "1.0" else make_bundle(site.folder / "third", "3.0")
    for device in cuts(site, "stage", new, "--identity", identity(new)):
        run(device, "check")
        assert whole(device) == "1.0"
        run(device, "stage", new, "--identity", identity(new))
        run(device, "try")
        assert device.probe() == json.loads((new / "bundle.json").read_text())["version"]


@pytest.mark.nightly
def test_while_another_version_is_installed_by_hand(site: SimpleNamespace) -> None:
    installed(site)
    for device in cuts(site, "install", site.new):
        run(device, "check")
        assert whole(device) == {"a": "1.0", "b": "2.0"}[device.journal()["active"]]
        run(device, "install", site.new)
        assert whole(device) == "2.0"


def test_while_it_is_switched(site: SimpleNamespace) -> None:
    installed(site, staged=True)
    for device in cuts(site, "try", "--rollout", "r1"):
        run(device, "check")
        assert whole(device) == "1.0"
        last = device.journal()["last"]
        assert last is None or (last["outcome"], last["identity"]) == ("reverted", identity(site.new))
        run(device, "try")
        assert device.probe() == "2.0"


@pytest.mark.parametrize(("command", "boot"), [("starting", "first"), ("check", "first"), ("check", "second")])
def test_while_a_start_is_counted_or_a_check_repairs(site: SimpleNamespace, command: str, boot: str) -> None:
    installed(site, on_trial=True)
    site.device.boot(boot)
    for device in cuts(site, command):
        run(device, "check")
        assert whole(device) == "1.0"


@pytest.mark.parametrize("how", ["confirm", "check"])
def test_while_it_is_confirmed(site: SimpleNamespace, how: str) -> None:
    installed(site, on_trial=True)
    site.device.healthy(site.new)
    for device in cuts(site, how):
        run(device, "check")
        version = whole(device)
        assert (version, device.journal()["last"]["outcome"]) in (("1.0", "reverted"), ("2.0", "confirmed"))


@pytest.mark.parametrize("how", ["revert", "check", "starting"])
def test_while_it_is_reverted(site: SimpleNamespace, how: str) -> None:
    installed(site, on_trial=True)
    journal = site.device.journal()
    journal["trial"] |= {"deadline_seconds": 0, "starts": 3}
    (site.device.home / "slots.json").write_text(json.dumps(journal))
    for device in cuts(site, how):
        run(device, "check")
        assert whole(device) == "1.0"
        assert device.journal()["last"]["outcome"] == "reverted"
        run(device, "try")
        assert device.probe() == "2.0"


def test_while_a_confirmed_version_is_taken_back(site: SimpleNamespace) -> None:
    installed(site, on_trial=True)
    run(site.device, "confirm")
    for device in cuts(site, "revert"):
        run(device, "check")
        assert whole(device) == {"a": "1.0", "b": "2.0"}[device.journal()["active"]]


@pytest.mark.nightly
def test_while_it_is_uninstalled(site: SimpleNamespace) -> None:
    installed(site, on_trial=True)
    for device in cuts(site, "uninstall"):
        run(device, "check")
        if (device.home / "slots.json").exists():
            assert whole(device) == "1.0"
        run(device, "uninstall")
        assert device.everything() == set()
        run(device, "install", site.new)
        assert whole(device) == "2.0"
