"""The units around the agent: correct to systemd, and exposed as little as it can tell."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.edge.slots_bundle import Device, make_bundle, units

from auricle_edge.ota.slots.commands import main as guard

MOST_EXPOSED = {f"auricle-{name}.service": 1.5 for name in ("claim", "renew", "guard")}
MOST_EXPOSED |= {"auricle-edge.service": 2.0, "auricle-update.service": 2.0}
"""Those of the guard and of updates are root's."""


@pytest.fixture
def analyze() -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    return program


def test_systemd_finds_no_fault_in_what_is_installed(analyze: str, tmp_path: Path) -> None:
    device = Device(tmp_path / "device")
    assert guard(["install", str(make_bundle(tmp_path / "bundle", "1.0")), "--root", str(device.root)]) == 0
    python = device.root / "usr/bin/python3"
    python.parent.mkdir(parents=True)
    shutil.copy("/bin/true", python)
    system = Path("/usr/lib/systemd/system")
    shutil.copytree(system, device.root / str(system).lstrip("/"), symlinks=True)
    names = sorted(each.name for each in (device.root / "etc/systemd/system").iterdir() if each.is_file())
    done = subprocess.run(
        [analyze, "verify", "--man=no", f"--root={device.root}", *names], capture_output=True, text=True, timeout=60
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd cannot verify units of another root")
    assert "auricle" not in done.stderr and done.returncode == 0, done.stderr
    assert len(names) == 8


def test_the_services_are_exposed_as_little_as_said(analyze: str, tmp_path: Path) -> None:
    services = {Path(path).name: text for path, text in units().items() if path.endswith(".service")}
    assert services.keys() == MOST_EXPOSED.keys()
    for name, text in services.items():
        unit = tmp_path / name
        unit.write_bytes(text)
        answer = subprocess.run(
            [analyze, "security", "--offline=true", "--no-pager", str(unit)], capture_output=True, text=True, timeout=60
        )
        found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", answer.stdout)
        assert found is not None, answer.stderr
        print(f"{name}: exposure {found[1]}")
        assert float(found[1]) <= MOST_EXPOSED[name]
