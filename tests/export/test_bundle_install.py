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

import pytest
from tests.export.small_bundle import BOARD, CHECKOUT, FLEET, SYSTEM

from auricle.process.cli import main
from auricle_export.flash.bundle import auricle_wheel
from auricle_export.flash.bundle.auricle_wheel import NAME
from auricle_export.flash.bundle.wheelhouse import pip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

AGAIN = """
import hashlib, auricle_export
from auricle_export.flash.boards import board_names
from auricle_export.flash.bundle.auricle_wheel import auricle_wheel
from auricle_export.flash.bundle.locks import LOCKS
assert auricle_export.__file__.startswith({place!r}) and str(LOCKS).startswith({place!r}), LOCKS
assert len(board_names()) == {boards} and len(list(LOCKS.iterdir())) == 8
print(hashlib.sha256(auricle_wheel()[1]).hexdigest())
"""


def test_our_wheel_is_the_same_from_checkout_sdist_and_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    again = subprocess.run(
        [sys.executable, "-c", AGAIN.format(place=str(place), boards=boards)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(place)},
    )

    assert (tmp_path / NAME).read_bytes() == (tmp_path / "from sdist" / NAME).read_bytes()
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip() == hashlib.sha256(ours).hexdigest()


def offline(*command: str | Path) -> str:
    """Run a program without network where that can be; what it printed."""
    alone = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []
    done = subprocess.run(
        [*alone, *command],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def unpacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A real bundle for this machine, unpacked; skips where its wheels cannot be fetched."""
    (tmp_path / "fleet.toml").write_text(FLEET.replace('update_root = "root.json"\n', ""))
    code = main(
        [
            "flash",
            "bundle",
            "--board",
            BOARD,
            "--os",
            SYSTEM,
            "--fleet",
            str(tmp_path / "fleet.toml"),
            "--out",
            str(tmp_path),
            "--without-updates",
            "--json",
        ]
    )
    told = capsys.readouterr()
    if code and "cannot reach its package index" in told.err:
        pytest.skip(f"no wheels: {told.err}")
    assert code == 0, told.err
    with tarfile.open(json.loads(told.out)["path"]) as archive:
        archive.extractall(tmp_path / "bundle", filter="data")
    return tmp_path / "bundle"


def test_pip_would_take_the_bundles_own_list_without_an_index(unpacked: Path, tmp_path: Path) -> None:
    pip(
        "install",
        "--dry-run",
        "-q",
        "--ignore-installed",
        "--no-index",
        "--find-links",
        str(unpacked / "wheels"),
        "--require-hashes",
        "--report",
        str(tmp_path / "report.json"),
        "-r",
        str(unpacked / "requirements.txt"),
    )

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
    doctor = subprocess.run(
        [
            python,
            "-m",
            "auricle",
            "edge",
            "doctor",
            "--simulate",
            "--json",
            "--state",
            tmp_path / "state",
            "--config",
            root / "etc/auricle/edge.toml",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
    )
    offline("python3", "-I", unpacked / "slots.py", "uninstall", "--root", root)

    assert "is installed." in first
    assert "is installed already; nothing was changed." in again
    assert version.startswith("auricle ")
    assert '"versions"' in doctor.stdout, doctor.stderr
    left = [path for path in root.rglob("*") if not path.is_dir()]
    assert left == [root / "etc/os-release"]
