"""The units on a running systemd: claim, trial, crash loop, sickness, power cut, removal."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.arm64.emulation import UnavailableError
from tests.edge.slots_bundle import identity, make_bundle, quick_folder
from tests.edge.slots_machine import Machine, agent, machine_root

UP = "systemctl is-active --quiet multi-user.target"
STATE = "var/lib/private/auricle"


@pytest.fixture
def site() -> Iterator[SimpleNamespace]:
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        pytest.skip("only root on x86_64 can start this container")
    for program in ("systemd-nspawn", "debootstrap", "nsenter"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    try:
        with machine_root() as root, quick_folder() as folder:
            site = SimpleNamespace(root=root, folder=folder, machine=Machine(root))
            try:
                site.machine.wait(UP)
                yield site
            finally:
                site.machine.cut()
    except UnavailableError as error:
        pytest.skip(str(error))


def bundle(site: SimpleNamespace, version: str, mode: str) -> Path:
    env = b"AURICLE_SERVER=https://hub.lan:8443\nAURICLE_CA_PIN=ab\n"
    path = make_bundle(
        site.folder / version, version, in_wheel=agent(version, mode), more={"etc/claim.env": env}, python="3.11"
    )
    shutil.copytree(path, site.root / "opt/bundles" / version)
    return path


def drop_in(root: Path, unit: str, line: str) -> None:
    folder = root / f"etc/systemd/system/{unit}.d"
    folder.mkdir(parents=True)
    (folder / "test.conf").write_text(f"[Service]\n{line}\n")


def journal(root: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((root / "opt/auricle/slots.json").read_text())
    return read


def last(root: Path) -> tuple[str, str]:
    found = journal(root)["last"]
    return found["version"], found["outcome"]


def wanted(site: SimpleNamespace, path: Path, deadline: int) -> None:
    """What the agent writes when it is told of a new version."""
    folder = site.root / STATE / "updates"
    folder.mkdir(exist_ok=True)
    said = {"path": f"/opt/bundles/{path.name}", "identity": identity(path), "deadline": str(deadline)}
    (folder / ".wanted").write_text(json.dumps(said))
    (folder / ".wanted").rename(folder / "wanted.json")


def starts(root: Path) -> list[str]:
    return (root / STATE / "starts").read_text().splitlines()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.nightly
def test_a_device_claims_and_ends_on_a_version_that_works_whatever_it_is_given(site: SimpleNamespace) -> None:
    machine, root = site.machine, site.root
    slots = ("python3", "-I", "/opt/auricle/slots.py")
    bundle(site, "1.0", "well")
    (root / "boot/firmware").mkdir(parents=True)
    (root / "boot/firmware/auricle.token").write_text("token-1\n")
    drop_in(root, "auricle-claim.service", "RestartSec=1")

    done = machine.run("python3", "-I", "/opt/bundles/1.0/slots.py", "install", "/opt/bundles/1.0")

    assert done.returncode == 0, done.stderr
    machine.wait(f"test -e /{STATE}/identity/claim.json && test ! -e /etc/auricle/claim.token")
    claim = json.loads((root / STATE / "identity/claim.json").read_text())
    assert claim == ["https://hub.lan:8443", "ab", "token-1\n", True]
    assert not (root / "boot/firmware/auricle.token").exists()
    machine.wait("systemctl is-active --quiet auricle-edge.service")
    machine.wait(f"test -e /{STATE}/starts")
    assert set(starts(root)) == {"1.0 True True"}  # as another user, and not before the claim
    assert machine.run("systemctl", "start", "auricle-renew.service").returncode == 0
    assert (root / STATE / "renewed").exists()

    better = bundle(site, "2.0", "well")
    wanted(site, better, 60)
    machine.wait("""grep -q '"outcome": "confirmed"' /opt/auricle/slots.json""")
    assert last(root) == ("2.0", "confirmed")
    machine.wait("! systemctl is-active --quiet auricle-guard.timer")

    wanted(site, bundle(site, "2.1", "crash"), 600)
    machine.wait("""grep -q '"version": "2.1"' /opt/auricle/slots.json""")
    assert last(root) == ("2.1", "reverted")
    machine.wait("systemctl is-active --quiet auricle-edge.service")
    machine.wait("test -e /run/auricle/health.json")
    assert starts(root)[-1].startswith("2.0") and sum(line.startswith("2.1") for line in starts(root)) == 3

    wanted(site, bundle(site, "2.2", "sick"), 10)
    machine.wait("""grep -q '"version": "2.2"' /opt/auricle/slots.json""")
    assert last(root) == ("2.2", "reverted")
    machine.wait(f"tail -n 1 /{STATE}/starts | grep -q '^2.0'")

    wanted(site, bundle(site, "2.3", "sick"), 600)
    machine.wait(f"tail -n 1 /{STATE}/starts | grep -q '^2.3'")
    machine.cut()
    said = journal(root)
    said["trial"] |= {"boot": "the one before"}  # a container's units see its host's, which goes on
    (root / "opt/auricle/slots.json").write_text(json.dumps(said))
    (root / "boot/firmware/auricle.token").write_text("token-2")
    site.machine = machine = Machine(root)
    machine.wait(UP)
    machine.wait(f"grep -q token-2 /{STATE}/identity/claim.json && test ! -e /etc/auricle/claim.token")
    assert not (root / "boot/firmware/auricle.token").exists()
    machine.wait(f"tail -n 1 /{STATE}/starts | grep -q '^2.0'")
    assert last(root) == ("2.3", "reverted")
    assert not any(line.startswith("2.3") for line in starts(root)[-1:])
    machine.wait("systemctl is-active --quiet auricle-edge.service")
    assert machine.run("systemctl", "--failed", "--plain", "--no-legend", "auricle-*").stdout == ""

    done = machine.run(*slots, "uninstall")
    assert done.returncode == 0, done.stderr
    left = machine.run("sh", "-c", "find / -xdev -name '*auricle*' -not -path '/opt/bundles/*'")
    assert {line for line in left.stdout.split() if not line.endswith(".service.d")} == set()
    machine.wait('test -z "$(systemctl list-units --all --plain --no-legend "auricle-*")"')  # systemd forgets when idle
