"""The Debian package of a bundle: what dpkg makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.export.small_bundle import SmallWorld, make_world

from auricle_export.flash.bundle.build import Built
from auricle_export.flash.bundle.debian import POSTRM


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallWorld:
    """What small bundles are made of."""
    return make_world(tmp_path, monkeypatch)


@pytest.fixture
def built(world: SmallWorld, tmp_path: Path) -> Built:
    """A bundle and its package."""
    return world.build(tmp_path / "out", deb=True)


def package_of(built: Built) -> Path:
    assert built.package is not None
    return built.package


def test_it_is_an_ar_of_two_tars(built: Built) -> None:
    data = package_of(built).read_bytes()

    assert data.startswith(b"!<arch>\n")
    members, at = {}, 8
    while at < len(data):
        header = data[at : at + 60]
        size = int(header[48:58])
        assert header[58:] == b"`\n"
        members[header[:16].decode().strip()] = size
        at += 60 + size + size % 2
    assert list(members) == ["debian-binary", "control.tar", "data.tar"]
    assert members["debian-binary"] == 4


needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg is not installed")


def run(*command: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_dpkg
def test_dpkg_reads_it(built: Built, tmp_path: Path) -> None:
    package = package_of(built)
    fields = run("dpkg-deb", "--field", package)
    run("dpkg-deb", "--raw-extract", package, tmp_path / "raw")

    python = built.manifest.python
    assert "Package: auricle-edge\n" in fields
    assert f"Version: {built.manifest.version}+{built.identity[:12]}\n" in fields
    assert f"Depends: python3 (>= {python}), python3 (<< 3.{int(python[2:]) + 1}~)\n" in fields
    assert "Recommends: libportaudio2\n" in fields
    sums = (tmp_path / "raw/DEBIAN/md5sums").read_text().splitlines()
    assert len(sums) == len(built.manifest.files) + 1
    for line in sums:
        assert (tmp_path / "raw" / line.split("  ")[1]).is_file()
    subprocess.run(["md5sum", "--check", "--quiet", "DEBIAN/md5sums"], cwd=tmp_path / "raw", check=True)


def empty_root(folder: Path, built: Built) -> Path:
    """A folder that dpkg takes for a system like this machine."""
    for name in ("etc", "var/lib/dpkg/updates", "var/lib/dpkg/info", "var/lib/dpkg/triggers", "tmp"):
        (folder / name).mkdir(parents=True)
    for name in ("status", "available"):
        (folder / "var/lib/dpkg" / name).write_text("")
    (folder / "etc/os-release").write_text(f"VERSION_CODENAME={built.manifest.base}\n")
    return folder


def files_in(root: Path) -> set[str]:
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir()}
    return {path for path in found if not path.startswith("var/lib/dpkg/")}


def test_purging_leaves_what_others_have_beside_its_settings(tmp_path: Path) -> None:
    kept = tmp_path / "etc/auricle/authority-passphrase"
    kept.parent.mkdir(parents=True)
    for path in (kept, kept.with_name("edge.toml"), kept.with_name("claim.token")):
        path.write_text("of a coordinator on the same machine, or ours")
    for _ in range(2):
        subprocess.run(["sh", "-c", POSTRM, "sh", "purge"], env={**os.environ, "DPKG_ROOT": str(tmp_path)}, check=True)
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.slow
@needs_dpkg
@pytest.mark.skipif(os.geteuid() != 0, reason="dpkg installs as root only")
def test_dpkg_installs_it_again_removes_and_purges_it(built: Built, world: SmallWorld, tmp_path: Path) -> None:
    root = empty_root(tmp_path / "system", built)
    before = files_in(root)
    dpkg = ("dpkg", f"--root={root}", "--force-script-chrootless", "--force-depends", "--log=/dev/null")

    first = run(*dpkg, "--install", package_of(built))
    installed = files_in(root)
    again = run(*dpkg, "--install", package_of(built))

    assert f"({built.identity[:12]}) is installed." in first
    assert "is installed already; nothing was changed." in again
    assert files_in(root) == installed
    assert (root / "opt/auricle/current").readlink() == Path("a")
    assert {"etc/auricle/edge.toml", "etc/systemd/system/auricle-edge.service", "opt/auricle/slots.py"} <= installed

    world.fleet_file.write_text(world.fleet_file.read_text().replace("0.9", "0.7"))
    newer = world.build(tmp_path / "newer", deb=True)
    run(*dpkg, "--install", package_of(newer))
    assert (root / "opt/auricle/current").readlink() == Path("b")
    assert "threshold = 0.7" in (root / "etc/auricle/edge.toml").read_text()

    run(*dpkg, "--remove", "auricle-edge")
    assert files_in(root) - before == {"etc/auricle/edge.toml"}
    run(*dpkg, "--purge", "auricle-edge")
    assert files_in(root) == before
    assert not (root / "etc/auricle").exists()
