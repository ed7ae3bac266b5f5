"""What the scenarios share: the blank card, the house, and the bundle that all cards bring along."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from tests.arm64.emulation import UnavailableError
from tests.firstboot.card import Card, blank_card
from tests.firstboot.house import House, auricle, house
from tests.firstboot.machine import HOST, Machine
from tests.firstboot.system import ROOM, WIFI, GuestSystem

PROGRAMS = {"qemu-system-aarch64": "qemu-system-arm", "mkfs.vfat": "dosfstools", "mke2fs": "e2fsprogs"}
PROGRAMS |= {"mcopy": "mtools", "depmod": "kmod"}
BOARD, SYSTEM = "pi5", "raspios-13"
SETTINGS = f"""
[device.settings.capture]
source = "folder:/{ROOM}?loop=1"
[device.settings.gate]
required = []
load = 100.0
settle = 0.0
"""
"""The machine has neither microphone nor thermal zone, and is busy whatever it does."""


@dataclass
class Workshop:
    """Where cards are made and put into machines."""

    system: GuestSystem
    blank: Path
    home: House
    folder: Path

    def card(self, device: str, *, ttl: str = "24h", passphrase: str | None = None) -> Card:
        """A card for a device, as `auricle flash image` writes it; with a passphrase it has a wireless network."""
        bundle = self.bundle
        tokens = self.home.tokens(device, ttl=ttl) if not self._tokens(device).exists() else self._tokens(device)
        out = self.folder / f"{device}-{passphrase or ''}".replace(" ", "-")
        auricle(
            *("flash", "image", "--image", str(self.blank), "--board", BOARD, "--os", SYSTEM),
            *("--fleet", str(self._fleet(passphrase)), "--tokens", str(tokens), "--bundle", str(bundle)),
            *("--out", str(out), "--seed", "1"),
        )
        return Card(out / f"{device}.img")

    def boot(self, card: Card, name: str, *, options: str = "", network: bool = True) -> Machine:
        """Put a card into a machine and turn it on."""
        return Machine(self.system, card, self.folder / f"{name}.log", options=options, network=network)

    @property
    def bundle(self) -> Path:
        """What all cards bring along."""
        folder = self.folder / "bundle"
        if not folder.exists():
            auricle(
                *("flash", "bundle", "--board", BOARD, "--os", SYSTEM, "--fleet", str(self._fleet(None))),
                *("--without-updates", "--out", str(folder)),
            )
        return next(folder.glob("*.tar"))

    def _tokens(self, device: str) -> Path:
        return self.home.folder / "tokens" / device

    def _fleet(self, passphrase: str | None) -> Path:
        wifi = f'[wifi]\nssid = "{WIFI}"\npsk = "{passphrase}"\ncountry = "DE"\n' if passphrase else ""
        return self.home.fleet_file(SETTINGS + wifi)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """Everything that a first boot needs; skips, saying why, where this machine or its network lacks something."""
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if find_mosquitto() is None:
        missing.append("mosquitto")
    if missing:
        pytest.skip(f"no first boot without: apt install {' '.join(missing)}")
    system = GuestSystem()
    try:
        system.make(progress)
    except UnavailableError as error:
        pytest.skip(f"no first boot: {error}")
    folder = tmp_path_factory.mktemp("firstboot")
    with house(folder / "house", [HOST]) as home:
        yield Workshop(system, blank_card(system, progress), home, folder)


def progress(text: str) -> None:
    """Say what is going on, on standard error."""
    print(f"firstboot: {text}", file=sys.stderr, flush=True)
