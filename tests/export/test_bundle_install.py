"""Real bundles: our wheel is the same from everywhere, and what it installs without network runs and goes again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.export.small_bundle import BOARD, CHECKOUT, FLEET, SYSTEM

from auricle.process.cli import main
from auricle_export.flash.bundle import auricle_wheel
from auricle_export.flash.bundle.auricle_wheel import NAME
from auricle_export.flash.bundle.wheelhouse import pip

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]

AGAIN = """
import hashlib, auricle_export
from auricle_export.flash.boards import board_names
from auricle_export.flash.bundle.auricle_wheel import auricle_wheel
from auricle_export.flash.bundle.locks import LOCKS
assert auricle_export.__file__.startswith({place!r}) and str(LOCKS).startswith({place!r}), LOCKS
assert len(board_names()) == {boards} and len(list(LOCKS.iterdir())) == 8
print(hashlib.sha256(auricle_wheel()[1]).hexdigest())
"""


def test_our_wheel_is_the_same_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    for kind in ("wheel", "sdist"):
        subprocess.run([*build, "-t", kind], cwd=CHECKOUT, check=True, capture_output=True)
    sdist = next(tmp_path.glob("*.tar.gz"))
    pip("wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path / "from sdist"), str(sdist))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    monkeypatch.setattr(auricle_wheel, "CHECKOUT", next((tmp_path / "unpacked").iterdir()))
    place = tmp_path / "installed"
    pip("install", "-q", "--no-deps", "--target", str(place), str(tmp_path / NAME))

    _, ours = auricle_wheel.auricle_wheel()
    boards = len(list((CHECKOUT / "firmware-configs").iterdir()))
    program = [sys.executable, "-c", AGAIN.format(place=str(place), boards=boards)]
    env = {**os.environ, "PYTHONPATH": str(place)}
    again = subprocess.run(program, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)

    assert (tmp_path / NAME).read_bytes() == (tmp_path / "from sdist" / NAME).read_bytes()
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip() == hashlib.sha256(ours).hexdigest()


def offline(*command: str | Path) -> str:
    """Run a program without network where that can be; what it printed."""
    alone = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([*alone, *command], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def unpacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A real bundle for this machine, unpacked; skips where its wheels cannot be fetched."""
    (tmp_path / "fleet.toml").write_text(FLEET.replace('update_root = "root.json"\n', ""))
    asked = ["flash", "bundle", "--board", BOARD, "--os", SYSTEM, "--fleet", str(tmp_path / "fleet.toml")]
    code = main([*asked, "--out", str(tmp_path), "--without-updates", "--json"])
    told = capsys.readouterr()
    if code and "cannot reach its package index" in told.err:
        pytest.skip(f"no wheels: {told.err}")
    assert code == 0, told.err
    with tarfile.open(json.loads(told.out)["path"]) as archive:
        archive.extractall(tmp_path / "bundle", filter="data")
    return tmp_path / "bundle"


def test_pip_would_take_the_bundles_own_list_without_an_index(unpacked: Path, tmp_path: Path) -> None:
    asked = ["install", "--dry-run", "-q", "--ignore-installed", "--no-index", "--find-links", str(unpacked / "wheels")]
    asked += ["--require-hashes", "--report", str(tmp_path / "report.json")]
    pip(*asked, "-r", str(unpacked / "requirements.txt"))
    chosen = json.loads((tmp_path / "report.json").read_text())["install"]
    assert len(chosen) == len(list((unpacked / "wheels").iterdir()))


def test_it_installs_without_network_once_runs_and_leaves_nothing(unpacked: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    base = json.loads((unpacked / "bundle.json").read_text())["base"]
    (root / "etc/os-release").write_text(f"VERSION_CODENAME={base}\n")
    python = root / "opt/auricle/current/bin/python3"

    first = offline("sh", unpacked / "install", "--root", root)
    again = offline("sh", unpacked / "install", "--root", root)
    version = offline(python, "-m", "auricle", "--version")
    asked = [python, "-m", "auricle", "edge", "doctor", "--simulate", "--json", "--state", tmp_path / "state"]
    asked += ["--config", root / "etc/auricle/edge.toml"]
    how: dict[str, Any] = {"text": True, "check": False, "cwd": tmp_path, "env": {"PATH": "/usr/bin:/bin"}}
    doctor = subprocess.run(asked, capture_output=True, **how)
    offline("python3", "-I", unpacked / "slots.py", "uninstall", "--root", root)

    assert "installed" in first and "nothing was changed" in again
    assert version.startswith("auricle ")
    assert '"versions"' in doctor.stdout, doctor.stderr
    left = [path for path in root.rglob("*") if not path.is_dir()]
    assert left == [root / "etc/os-release"]
