"""Rollouts of real bundles on a Debian with its own systemd: kept when it is well, given back when it is not."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auricle import __version__
from tests.arm64.board import SOURCES
from tests.arm64.emulation import UnavailableError
from tests.arm64.wheels import CHECKOUT
from tests.edge.slots_machine import Machine, machine_root
from tests.firstboot.house import House, house
from tests.system.rollout_site import Releases, wait_for
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.virtual_room import VirtualRoom

pytestmark = [NEEDS_MOSQUITTO, pytest.mark.slow, pytest.mark.timeout(1200)]

DEVICE = "kitchen-1"
SOUND, NOTHING = "/opt/sound/microphone", "/opt/sound/nothing"
PATIENCE = 240.0
FLEET = """\
pack = "digits"
update_root = "{root}"
[device]
settings = {{ capture = {{ source = "fifo:{sound}" }}, updates = {{ health_seconds = 10 }} }}
"""
BROKEN = "edge/auricle_edge/service/process.py"


class Factory:
    """Builds bundles of this checkout under other versions."""

    def __init__(self, folder: Path, site: House, releases: Releases) -> None:
        self.copy, self._out, self._site, self._root = folder / "checkout", folder / "out", site, releases.root
        self.copy.mkdir()
        for name in SOURCES:
            source = CHECKOUT / name
            if source.is_dir():
                shutil.copytree(source, self.copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, self.copy)

    def build(self, version: str, sound: str = SOUND) -> Path:
        """A bundle whose devices listen to this FIFO."""
        module = self.copy / "core/auricle/__init__.py"
        lines = module.read_text().splitlines(keepends=True)
        kept = [f'__version__ = "{version}"\n' if line.startswith("__version__") else line for line in lines]
        module.write_text("".join(kept))
        fleet = self._site.fleet_file(FLEET.format(root=self._root, sound=sound))
        parts = os.pathsep.join(
            str(self.copy / part) for part in ("core", "learning", "edge", "cloud", "export", "fleet")
        )
        command = [sys.executable, "-m", "auricle", "flash", "bundle", "--board", "generic-x86_64", "--os", "debian-12"]
        command += ["--fleet", str(fleet), "--out", str(self._out), "--json"]
        environment = {**os.environ, "PYTHONPATH": parts}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if "cannot reach its package index" in done.stderr:
            pytest.skip(f"no wheels: {done.stderr}")
        assert done.returncode == 0, done.stderr
        path = Path(json.loads(done.stdout)["path"])
        assert f"-{version}-" in path.name
        return path

    def break_start(self) -> None:
        """From now on the agent ends before it has begun."""
        place = self.copy / BROKEN
        place.write_text(place.read_text().replace("    be_small()\n", "    import auricle_edge.nothing\n", 1))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A house, its releases, and a machine that is up and has nothing of ours."""
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        pytest.skip("only root on x86_64 can start this container")
    for program in ("systemd-nspawn", "debootstrap", "nsenter"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    try:
        with machine_root("rollout") as root, house(tmp_path / "house", ["127.0.0.1"], "--pack", "digits") as home:
            (root / SOUND[1:]).parent.mkdir()
            room = VirtualRoom(root / SOUND[1:])
            os.mkfifo(root / NOTHING[1:])
            for fifo in (SOUND, NOTHING):
                (root / fifo[1:]).chmod(0o666)
            machine = Machine(root, network=True)
            try:
                machine.wait("systemctl is-active --quiet multi-user.target")
                room.open()
                yield SimpleNamespace(house=home, machine=machine, root=root)
                room.close()
            finally:
                machine.cut()
    except UnavailableError as error:
        pytest.skip(str(error))


def journal(root: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((root / "opt/auricle/slots.json").read_text())
    return read


def install(site: SimpleNamespace, bundle: Path) -> None:
    """As somebody would by hand: the token beside, the archive unpacked, its installer run."""
    (site.root / "boot/firmware").mkdir(parents=True, exist_ok=True)
    token = site.house.tokens(DEVICE) / f"{DEVICE}.token"
    shutil.copy(token, site.root / "boot/firmware/auricle.token")
    shutil.unpack_archive(bundle, site.root / "opt/bundle", "tar")
    done = site.machine.run("sh", "/opt/bundle/install")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
def test_a_bundle_is_updated_when_it_is_well_and_two_that_are_not_are_given_back(
    tmp_path: Path, site: SimpleNamespace
) -> None:
    releases = Releases(site.house)
    factory = Factory(tmp_path, site.house, releases)
    said: list[tuple[str, str | None, bool]] = []

    def look(cloud: str) -> None:
        now = journal(site.root)
        said.append((cloud, now["trial"] and now["trial"]["identity"], now["confirmed"]))

    install(site, factory.build(__version__))
    wait_for(lambda: releases.knows(DEVICE), site.machine.log, PATIENCE)

    good = releases.add(factory.build("9.2"))
    shown = releases.watch(releases.start(good), look, PATIENCE)
    assert shown["row"]["state"] == "finished", (shown, site.machine.log())
    device = shown["devices"][0]
    assert (device["state"], device["runs"], device["version"], device["confirmed"]) == ("updated", good, "9.2", True)
    assert ("asked", good, False) in said
    assert {trial for cloud, trial, _ in said if cloud == "updated"} <= {None}
    assert journal(site.root)["last"]["outcome"] == "confirmed"

    deaf = factory.build("9.3", NOTHING)
    factory.break_start()
    for bundle, version, reason in ((deaf, "9.3", "healthy within"), (factory.build("9.4"), "9.4", "started 3 times")):
        bad = releases.add(bundle)
        said.clear()
        rollout = releases.start(bad)
        shown = releases.watch(rollout, look, PATIENCE)
        row, device = shown["row"], shown["devices"][0]
        assert (row["state"], row["updated"], row["failed"]) == ("paused", 0, 1), (version, shown, site.machine.log())
        assert (device["state"], device["runs"], device["version"]) == ("failed", good, "9.2")
        assert "updated" not in {cloud for cloud, _, _ in said}
        assert ("asked", bad, False) in said
        last = journal(site.root)["last"]
        assert (last["version"], last["outcome"], last["rollout"]) == (version, "reverted", rollout)
        assert reason in last["reason"] and last["reason"][:100] in "".join(device["sentences"])
        assert f"fifo:{SOUND}" in (site.root / "etc/auricle/edge.toml").read_text()
        site.machine.wait("""grep -q '"healthy":true' /run/auricle/health.json""")
        releases.abort(rollout)
