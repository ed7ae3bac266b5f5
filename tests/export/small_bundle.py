"""A world in which a bundle is small: two tiny wheels in a lock of their own, and the real guard and units."""

from __future__ import annotations

import base64
import hashlib
import platform
import sys
import zipfile
from pathlib import Path

import pytest

from auricle import __version__
from auricle_export.flash.board import Board
from auricle_export.flash.boards import load_board
from auricle_export.flash.bundle import contents, locks
from auricle_export.flash.bundle.auricle_wheel import INFO, NAME, pack_wheel
from auricle_export.flash.bundle.build import Built, build_bundle
from auricle_export.flash.bundle.contents import SHARED
from auricle_export.flash.bundle.locks import Target
from auricle_export.flash.bundle.wheelhouse import wheelhouse
from auricle_export.flash.fleet import Fleet
from auricle_export.flash.fleet_file import load_fleet

CHECKOUT = Path(__file__).parents[2]
EDGE = CHECKOUT / "edge" / "auricle_edge"
BOARD = {"aarch64": "generic-arm64", "x86_64": "generic-x86_64"}.get(platform.machine(), "generic-x86_64")
SYSTEM = {10: "ubuntu-22.04", 11: "debian-12", 12: "ubuntu-24.04", 13: "debian-13"}[sys.version_info.minor]
"""The board and the system that are like this machine and this Python."""
WHEEL = "Wheel-Version: 1.0\nGenerator: here\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
FLEET = f"""\
name = "home"
broker = "mqtts://hub.lan:8883"
server = "https://hub.lan:8443"
ca_pin = "{"ab" * 32}"
coordinator = "{"0f" * 32}"
update_root = "root.json"
[device]
settings = {{ threads = 1, detect = {{ threshold = 0.9, thresholds = {{ yes = 0.8 }} }} }}
"""


def tiny_wheel(folder: Path, name: str, body: str = "") -> Path:
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": f'"""Small."""\n{body}',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": WHEEL,
    }
    record = "".join(f"{path},sha256={_urlsafe(text)},{len(text)}\n" for path, text in files.items())
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(zipfile.ZipInfo(inside), text)
    return path


def _urlsafe(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def tiny_auricle() -> tuple[str, bytes]:
    """Auricle's wheel with nothing but the part that puts it on a device."""
    files = {path.relative_to(EDGE.parent).as_posix(): path.read_bytes() for path in _installation()}
    files |= {name: (CHECKOUT / "core" / name).read_bytes() for name in SHARED}
    metadata = f"Metadata-Version: 2.1\nName: auricle\nVersion: {__version__}\n"
    return NAME, pack_wheel({**files, f"{INFO}/METADATA": metadata.encode(), f"{INFO}/WHEEL": WHEEL.encode()})


def _installation() -> list[Path]:
    units = sorted((EDGE / "ota" / "units").iterdir())
    guard = sorted((EDGE / "ota" / "slots").glob("*.py"))
    return [*guard, EDGE / "service" / "auricle-edge.service", *units]


class SmallWorld:
    """Where everything is that a small bundle is made of; the wheelhouse is that of this machine and Python."""

    def __init__(self, folder: Path) -> None:
        self.wheels, self.fleet_file = folder / "wheels", folder / "fleet.toml"
        self.board: Board = load_board(BOARD)
        self.house = wheelhouse(Target.of(self.board.system(SYSTEM)), self.wheels)

    @property
    def fleet(self) -> Fleet:
        return load_fleet(self.fleet_file)

    def build(self, out: Path, *, key: Path | None = None) -> Built:
        return build_bundle(self.board, self.fleet, out, os=SYSTEM, key=key, wheels=self.wheels)


def make_world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SmallWorld:
    """Make it in a folder, for as long as a test runs."""
    world = SmallWorld(folder)
    world.house.mkdir(parents=True)
    (folder / "locks").mkdir()
    (folder / "root.json").write_text('{"signed": {"_type": "root"}}')
    world.fleet_file.write_text(FLEET)
    lines = []
    for name in ("alpha", "beta"):
        wheel = tiny_wheel(world.house, name)
        lines.append(f"{name}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    monkeypatch.setattr(locks, "LOCKS", folder / "locks")
    monkeypatch.setattr(contents, "auricle_wheel", tiny_auricle)
    for machine in ("aarch64", "x86_64"):
        for minor in (10, 11, 12, 13):
            Target(minor, machine).lock.write_text("# small\n" + "".join(lines))
    return world
